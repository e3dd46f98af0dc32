"""The addresses that a holder's webhook may not reach: a caller must not use the gateway's network.

The check is of the address that is connected to, so a name that resolves to another one the second
time gains nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from gateway.config.values import check_webhook

MAX_URL_CHARS: Final = 500
"""Characters of a holder's address: it has to fit into a line or two of the console."""
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
"""All that is assigned of IPv6. Outside are networks' own prefixes, such as those of a NAT64."""
_NEVER: Final = tuple(map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20")))
"""Networks for protocols, of relays (6to4), and of documents: Python's versions differ on them."""
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})
"""The third quarter of an IPv6 address whose last one is an IPv4 address (RFC 5214)."""


class Forbidden(OSError):
    """A holder's webhook leads to an address that is not public."""


def check_holder_url(url: str, *, any_address: bool) -> None:
    """Raise ValueError if a holder may not name this address."""
    if len(url) > MAX_URL_CHARS:
        raise ValueError(f"must have at most {MAX_URL_CHARS} characters")
    check_webhook(url)
    if any_address:
        return
    parts = urlsplit(url)
    if parts.scheme != "https":
        raise ValueError("must begin with https://")
    try:
        address = ip_address(parts.hostname or "")
    except ValueError:
        return  # a name: its addresses are checked at each delivery
    if not is_public(address):
        raise ValueError("must lead to a public address")


def require_public(host: object) -> None:
    """Raise Forbidden unless the text is a public address; a name is none."""
    try:
        is_allowed = is_public(ip_address(str(host).partition("%")[0]))
    except ValueError:
        is_allowed = False
    if not is_allowed:
        raise Forbidden("the address is not public")


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether anybody could reach it; an IPv6 address that carries an IPv4 one is judged by that."""
    if any(address in network for network in _NEVER):
        return False
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if not all(map(is_public, _find_carried(address))) or address not in _GLOBAL_UNICAST:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _find_carried(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that a tunnel would go to."""
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
        yield IPv4Address(int(address) & 0xFFFFFFFF)
