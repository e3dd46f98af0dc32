"""Hosts and ports as people and browsers write them; the address of a request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from multidict import MultiMapping

_DEFAULT_PORT: Final = 80
"""The port of http, which browsers leave out of an origin."""
_ANY: Final = ("::", "0.0.0.0")  # noqa: S104 - whoever asks for them gets them
"""All addresses of this machine, of both families."""
REACHABLE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "*": "127.0.0.1"}  # noqa: S104 - of addresses that are none

LOCAL: Final = "local"
"""The address of a client on a UNIX socket that forwards no other address."""
Network = IPv4Network | IPv6Network


def join_address(host: str, port: int) -> str:
    return f"{_bracket(host)}:{port}"


def list_hosts(host: str) -> tuple[str, ...]:
    """Return the hosts to listen on: `::` and `*` stand for all addresses of both families."""
    return _ANY if host in {"::", "*"} else (host,)


def make_origin(host: str, port: int) -> str:
    """Return the origin of an http address, as in a browser's Origin header."""
    return "http://" + (_bracket(host) if port == _DEFAULT_PORT else join_address(host, port))


def make_local_url(host: str, port: int) -> str:
    """Return the URL by which a listening address is reached from the same machine."""
    return make_origin(REACHABLE.get(host, host), port)


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host


FORWARDED_FOR: Final = "X-Forwarded-For"
FORWARDED: Final = "Forwarded"
"""The header of RFC 7239, which is read where there is no X-Forwarded-For."""
_PORT: Final = r"(?::[0-9]{1,5})?"
_WITH_PORT: Final = re.compile(rf"\[([^\[\]%]+)\]{_PORT}|([0-9.]+){_PORT}")
"""An address as balancers write it: IPv6 in brackets, a port behind either."""
_QUOTED: Final = r'"(?:[^"\\]|\\.)*+"'
_WHOLE: Final = re.compile(rf'(?:[^"]|{_QUOTED})*+')
_ELEMENT: Final = re.compile(rf'(?:[^",]|{_QUOTED})++')
_PAIR: Final = re.compile(rf'(?:[^";]|{_QUOTED})++')
_ESCAPED: Final = re.compile(r"\\(.)")


def find_address(
    remote: str, headers: MultiMapping[str], trusted_proxies: Sequence[Network]
) -> str:
    """Return the address of the client that sent the request.

    X-Forwarded-For is read from the right for as long as trusted proxies wrote the entries, and without
    any, Forwarded; if an entry is malformed or hides the client, the result is the nearest proxy. Never
    both are read: a proxy passes on unchanged what the client wrote in the header that it does not know.
    A UNIX socket has no address: its client is a proxy on this machine, which is trusted.
    """
    peer = parse_address(remote)
    if remote and (peer is None or not _is_within(peer, trusted_proxies)):
        return remote if peer is None else str(peer)
    nearest = LOCAL if peer is None else str(peer)
    found = nearest
    # The client chooses the entries on the left; each proxy appends the address it saw.
    for entry in reversed(_list_forwarded(headers)):
        address = _read_entry(entry)
        if address is None:
            return nearest
        found = str(address)
        if not _is_within(address, trusted_proxies):
            break
    return found


def _list_forwarded(headers: MultiMapping[str]) -> list[str]:
    """Return the entries that proxies appended, each with an address; the last is the nearest proxy's."""
    lines = headers.getall(FORWARDED_FOR, ())
    if lines:
        return [one.strip() for line in lines for one in line.split(",")]
    return [
        _read_element(one) for line in headers.getall(FORWARDED, ()) for one in _split_line(line)
    ]


def _split_line(line: str) -> list[str]:
    """Split a line of Forwarded into its elements."""
    # A quotation that a client left open must not swallow what the proxy appended.
    return _ELEMENT.findall(line) if _WHOLE.fullmatch(line) else line.split(",")


def _read_element(element: str) -> str:
    """Return the value of `for` in an element; "" if there is none, or more than one."""
    pairs = (one.partition("=") for one in _PAIR.findall(element))
    values = [value.strip() for name, _, value in pairs if name.strip().lower() == "for"]
    if len(values) != 1:
        return ""
    value = values[0]
    return _ESCAPED.sub(r"\1", value[1:-1]) if re.fullmatch(_QUOTED, value) else value


def _read_entry(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address, perhaps with a port; None for anything else, such as `unknown` or `_hidden`."""
    found = _WITH_PORT.fullmatch(text)
    return parse_address(text if found is None else found[1] or found[2])


def _is_within(address: IPv4Address | IPv6Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address; None for anything else."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A dual-stack socket reports IPv4 clients in this form; networks are configured as IPv4.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
