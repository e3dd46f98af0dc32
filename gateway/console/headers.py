"""Headers that keep a browser from doing what nobody asked for (reliability.md §4)."""

from __future__ import annotations

from typing import Final

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
API_HEADERS: Final = {**SECURITY_HEADERS, "Cache-Control": "no-store"}
