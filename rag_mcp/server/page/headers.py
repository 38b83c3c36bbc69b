"""What a browser is told with every answer of the page: what it may load, keep, frame and pass on."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rag_mcp.server.http.guard import SECURITY

__all__ = ["COOKIE_PATH", "PAGE_SECURITY", "cookie_name"]

COOKIE_PATH = "/page"

PAGE_SECURITY: Mapping[str, str] = MappingProxyType(
    {
        **SECURITY,
        "Content-Security-Policy": (
            "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
            "frame-ancestors 'none'"
        ),
        # With no-referrer, Chromium sends "Origin: null" with our own forms.
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "X-Frame-Options": "DENY",
    }
)


def cookie_name(port: int) -> str:
    return f"rag_mcp_{port}"
