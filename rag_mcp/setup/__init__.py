"""Set up in one go, and undone: entries in hosts and a schedule, in files that others write to as well."""
