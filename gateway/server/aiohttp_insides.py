"""The names inside aiohttp that the server reads and sets; `api.aiohttp_insides` has those of a request."""

# ruff: noqa: SLF001 - that is what this module is for

from __future__ import annotations

from collections.abc import Collection

from aiohttp import http_parser, web, web_response
from aiohttp.web_protocol import RequestHandler


def list_connections(server: web.Server) -> Collection[RequestHandler]:
    """Return the connections themselves: the public property copies them."""
    return server._connections


def set_keepalive_timeout(server: web.Server, seconds: float) -> None:
    """Set the pause between two requests for connections that are made from now on."""
    server._kwargs["keepalive_timeout"] = seconds


def is_serving(connection: RequestHandler) -> bool:
    """Return whether a request of the connection is being served."""
    return connection._request_in_progress


def find_last_reply(connection: RequestHandler) -> float:
    """Return a time that is later the later a connection had its last reply."""
    return connection._next_keepalive_close_time


def is_between_requests(connection: RequestHandler) -> bool:
    """Return whether the connection waits for another request: its task waits, and nothing will wake it."""
    waiter = connection._waiter
    is_waiting = waiter is not None and not waiter.done() and not connection._messages
    return is_waiting and connection._request_count > 0


def has_whole_request(connection: RequestHandler) -> bool:
    """Return whether a request that came whole is being served."""
    request = connection._current_request
    return request is not None and request.content.is_eof()


def name_server(name: str) -> None:
    """Set the `Server` header of aiohttp's own replies, such as to what it cannot parse.

    aiohttp names itself and its version, and no setting changes that.
    """
    web_response.SERVER_SOFTWARE = name  # type: ignore[attr-defined] # it is not exported


def has_slow_parser() -> bool:
    """Return whether aiohttp was installed without its parser in C."""
    return http_parser.HttpRequestParser is http_parser.HttpRequestParserPy
