"""Where a request comes from: this site or another one, and which address. No I/O.

The Host header, which anybody can set, decides nothing here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from gateway.addresses import make_origin
from gateway.config import Server
from gateway.config_values import Network

_OWN_SITES: Final = frozenset({"same-origin", "none"})
"""`none`: somebody typed the address, or used a bookmark."""

LOCAL: Final = "local"
"""Whoever comes by a UNIX socket without saying for whom."""

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_ANY: Final = ("0.0.0.0", "::")  # noqa: S104 - a comparison


def is_same_site(headers: Mapping[str, str], own_origins: Collection[str]) -> bool:
    """Whether the console's own page sent it, or no page at all.

    Browsers send one of the two headers with every unsafe request; a script sends neither, and
    has no cookie that a site could borrow.
    """
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in _OWN_SITES
    origin = headers.get("Origin")
    return origin is None or origin in own_origins


def find_own_origins(server: Server, local: tuple[str, int] | None) -> frozenset[str]:
    """The origins at which the console is: `public_url`, else the addresses of this machine.

    `local` is where the connection came in: the one address that is certain when the server
    listens on all of them, on any free port, or on a socket that was passed to it.
    """
    if server.public_url is not None:
        return frozenset({server.public_url})
    host, port = local or (server.host, server.port)
    hosts = {*_LOOPBACK, server.host, host}.difference(_ANY)
    return frozenset(make_origin(one, port) for one in hosts)


def read_local(name: object) -> tuple[str, int] | None:
    """Host and port of what a socket says of its own end; None for one without."""
    if not isinstance(name, tuple):
        return None
    address = _parse(name[0])
    return None if address is None else (str(address), name[1])


def find_address(remote: str, forwarded: Sequence[str], trusted_proxies: Sequence[Network]) -> str:
    """Whom the request comes from.

    `forwarded` are all X-Forwarded-For headers. They are believed from the right, for as long as
    trusted proxies wrote them; what cannot be read leaves it at the proxy that sent it. A UNIX
    socket has no address: behind it is a proxy of this machine, and it is trusted.
    """
    peer = _parse(remote)
    if remote and (peer is None or not _is_trusted(peer, trusted_proxies)):
        return remote
    nearest = LOCAL if peer is None else str(peer)
    found = nearest
    for entry in reversed([one for line in forwarded for one in line.split(",")]):
        address = _parse(entry.strip())
        if address is None:
            return nearest
        found = str(address)
        if not _is_trusted(address, trusted_proxies):
            break
    return found


def _is_trusted(address: IPv4Address | IPv6Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
