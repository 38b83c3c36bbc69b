"""The store in a folder: Chroma and Tantivy in generations that are published whole."""
