"""Hosts and ports as people and browsers write them."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

_DEFAULT_PORT: Final = 80
"""The port of http, which browsers leave out of an origin."""
_REACHABLE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - of addresses that are none

_SSH_WORDS: Final = 4
"""Words of SSH_CONNECTION: address and port of the client, then of the server."""


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


def make_tunnel_command(host: str, port: int, environ: Mapping[str, str]) -> str | None:
    """Return what to type on another machine to reach a loopback address; None for other addresses.

    In a session of ssh, `environ` says by which address the machine was reached.
    """
    if not _is_loopback(host):
        return None
    connection = environ.get("SSH_CONNECTION", "").split()
    server, server_port = connection[2:] if len(connection) == _SSH_WORDS else ("SERVER", "22")
    option = "" if server_port == "22" else f"-p {server_port} "
    user = environ.get("USER") or "USER"
    return f"ssh {option}-L {port}:{join_address(host, port)} {user}@{server}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host
