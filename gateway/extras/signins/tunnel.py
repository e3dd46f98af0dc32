"""Loopback addresses, and the ssh command by which another machine reaches them."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

from gateway.base.addresses import join_address

_SSH_WORDS: Final = 4
"""Words of SSH_CONNECTION: address and port of the client, then of the server."""


def make_tunnel_command(host: str, port: int, environ: Mapping[str, str]) -> str | None:
    """Return what to type on another machine to reach a loopback address; None for other addresses.

    In a session of ssh, `environ` says by which address the machine was reached.
    """
    if not is_loopback(host):
        return None
    connection = environ.get("SSH_CONNECTION", "").split()
    server, server_port = connection[2:] if len(connection) == _SSH_WORDS else ("SERVER", "22")
    option = "" if server_port == "22" else f"-p {server_port} "
    user = environ.get("USER") or "USER"
    return f"ssh {option}-L {port}:{join_address(host, port)} {user}@{server}"


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
