"""Versions of what the two indexes write; part of a store's identity, and cheap to import."""

from __future__ import annotations

__all__ = ["INDEX_FORMATS"]

INDEX_FORMATS = {"vectors": 1, "keywords": 3}
"""Raise ``keywords`` with every change of schema or analysis, ``vectors`` with every change of how rows are stored."""
