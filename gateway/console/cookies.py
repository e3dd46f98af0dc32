"""The session's cookie: out of reach of scripts and of other sites, and with https of http."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.config import Server
from gateway.ledger.book_signins import SESSION_MS
from gateway.state import GATEWAY

NAME: Final = "gateway_session"
SECURE_NAME: Final = f"__Host-{NAME}"
"""A browser takes it from https alone, and from no other host of the same domain."""

MAX_AGE_SECONDS: Final = SESSION_MS // 1000
"""A session's longest life; the server ends it earlier when it is not used."""


def read_session_token(request: web.Request) -> str | None:
    return request.cookies.get(_name(request.app[GATEWAY].config.server))


def write_session_cookie(response: web.Response, token: str | None, server: Server) -> None:
    """A new session's token; None makes the browser forget the one it has."""
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
