"""Response headers and the session cookie, by which browsers keep the console safe.

The headers follow OWASP's cheat sheets "Content Security Policy" and "HTTP Security Response
Headers". HSTS is left to the TLS proxy in front, which alone knows whether every service of the
host speaks TLS. The cookie is hidden from scripts (HttpOnly) and from requests of other sites
(SameSite); behind https it is sent over https alone.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.config import Server
from gateway.ledger import SESSION_MS

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

NAME: Final = "gateway_session"
SECURE_NAME: Final = f"__Host-{NAME}"
"""The prefix makes browsers accept the cookie over https only, and from this host only."""

MAX_AGE_SECONDS: Final = SESSION_MS // 1000
"""The longest a session can last; the server ends an unused one earlier."""


def read_session_token(request: web.Request, server: Server) -> str | None:
    return request.cookies.get(_name(server))


def write_session_cookie(response: web.Response, token: str | None, server: Server) -> None:
    """Set the cookie of a new session; None deletes the cookie."""
    response.set_cookie(
        _name(server),
        token or "",
        max_age=0 if token is None else MAX_AGE_SECONDS,
        path="/",
        secure=_is_secure(server),
        httponly=True,
        samesite="Lax",
    )


def _name(server: Server) -> str:
    return SECURE_NAME if _is_secure(server) else NAME


def _is_secure(server: Server) -> bool:
    return (server.public_url or "").startswith("https://")
