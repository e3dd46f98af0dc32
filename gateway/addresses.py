"""Hosts and ports as people and browsers write them."""

from __future__ import annotations

from typing import Final

_DEFAULT_PORT: Final = 80
"""The port of http, which browsers leave out of an origin."""
_REACHABLE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - of addresses that are none


def join_address(host: str, port: int) -> str:
    return f"{_bracket(host)}:{port}"


def make_origin(host: str, port: int) -> str:
    """Return the origin of an http address, as in a browser's Origin header."""
    return (
        f"http://{_bracket(host)}"
        if port == _DEFAULT_PORT
        else f"http://{join_address(host, port)}"
    )


def make_local_url(host: str, port: int) -> str:
    """Return the URL by which a listening address is reached from the same machine."""
    return make_origin(_REACHABLE.get(host, host), port)


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host
