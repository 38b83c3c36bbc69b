"""Local retrieval with cited passages over a folder of markdown: Chroma for meaning, Tantivy for words."""

__all__ = ["__version__"]

__version__ = "0.1.0"
