"""The addresses that a holder's webhook may not reach: a caller must not use the gateway's network.

The check is of the address that is connected to, so a name that resolves to another one the second
time gains nothing.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

from gateway.config import check_webhook

MAX_URL_CHARS: Final = 500
"""Characters of a holder's address: it has to fit into a line or two of the console."""
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
"""IPv6 addresses that a NAT64 maps to any IPv4 address: the last 32 bits (RFC 6052)."""


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
    if isinstance(address, IPv6Address):
        teredo = address.teredo
        inner = address.ipv4_mapped or address.sixtofour or (teredo and teredo[1])
        if inner is None and address in _TRANSLATED:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None and not is_public(inner):
            return False
        if inner is not None and address.ipv4_mapped is not None:
            return True
        if address.is_site_local:  # fec0::/10, the private addresses of old networks
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved
