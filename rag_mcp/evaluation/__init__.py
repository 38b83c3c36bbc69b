"""Measures retrieval and its relevance gate on questions whose answers are known, and refits the gate from them."""
