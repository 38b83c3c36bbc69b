"""A store in Postgres with pgvector: one database for many machines, its readers confined by row-level security.

A *generation* is a number. Every row says with which one it came (``added``) and with which one it went (``removed``), so
a reader of a generation sees the same rows as long as that generation is kept, whatever is published meanwhile, and a
publication is one transaction. Keywords are an inverted file: for each term, class and segment one packed list, which
never changes; lists are fetched for the terms of a question and scored here. Vectors lie in HNSW indexes, one for each
class and *build*; what is built from nothing, as with another embedder, is another build and mixes with no other.
"""
