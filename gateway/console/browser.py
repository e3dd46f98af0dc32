"""Response headers and the cookies of sessions and devices, by which browsers keep the console safe.

The headers follow OWASP's cheat sheets "Content Security Policy" and "HTTP Security Response
Headers". HSTS is left to the TLS proxy in front, which alone knows whether every service of the
host speaks TLS. The cookies are hidden from scripts (HttpOnly) and from requests of other sites
(SameSite); behind https they are sent over https alone.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.config import Server
from gateway.console.devices import DeviceCookie, name_cookie
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
SECURE_PREFIX: Final = "__Host-"
"""The prefix makes browsers accept a cookie over https only, and from this host only."""
SECURE_NAME: Final = f"{SECURE_PREFIX}{NAME}"

MAX_AGE_SECONDS: Final = SESSION_MS // 1000
"""The longest a session can last; the server ends an unused one earlier."""


DEVICE_SECONDS: Final = 400 * 86400
"""How long a browser keeps a device cookie: browsers keep none for longer."""


def read_session_token(request: web.Request, server: Server) -> str | None:
    return request.cookies.get(_name(NAME, server))


def read_device_cookie(request: web.Request, account: str, server: Server) -> str | None:
    return request.cookies.get(_name(name_cookie(account), server))


def write_session_cookie(response: web.Response, token: str | None, server: Server) -> None:
    """Set the cookie of a new session; None deletes the cookie."""
    _set(response, NAME, token or "", 0 if token is None else MAX_AGE_SECONDS, server)


def write_device_cookie(response: web.Response, device: DeviceCookie, server: Server) -> None:
    _set(response, device.name, device.value, DEVICE_SECONDS, server)


def _set(
    response: web.Response, name: str, value: str, max_age_seconds: int, server: Server
) -> None:
    response.set_cookie(
        _name(name, server),
        value,
        max_age=max_age_seconds,
        path="/",
        secure=_is_secure(server),
        httponly=True,
        samesite="Lax",
    )


def _name(name: str, server: Server) -> str:
    return SECURE_PREFIX + name if _is_secure(server) else name


def _is_secure(server: Server) -> bool:
    return (server.public_url or "").startswith("https://")
