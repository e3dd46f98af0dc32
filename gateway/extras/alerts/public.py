"""Which addresses are public: a holder's webhook reaches no others."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network
from typing import Final

_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
"""The assigned part of IPv6. Outside it are networks' own prefixes, such as those of a NAT64."""
_NEVER: Final = tuple(map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20")))
"""Networks for protocols, relays (6to4) and documentation: Python's versions differ on them."""
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})
"""The third quarter of an IPv6 address whose last one is an IPv4 address (RFC 5214)."""


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address is public. An embedded IPv4 address decides for an IPv6 address."""
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
