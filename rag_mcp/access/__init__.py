"""Who may see what: policy, profiles, and the one grammar of names."""
