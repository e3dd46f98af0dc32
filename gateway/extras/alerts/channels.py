"""One delivery of an alert: a signed request to a webhook, or a run of a command.

Webhooks use aiohttp's client: the server loads it anyway, it verifies TLS, and it lets the address of
each connection be checked. The forwarder's own client is made for pools, streams and retries.

A holder's webhook may not reach the gateway's network. The check is of the address that is connected
to, so a name that resolves to another one the second time gains nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
from collections.abc import Collection, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from gateway.base import deadlines
from gateway.base.tls import describe_tls
from gateway.extras.alerts.settings import check_webhook
from gateway.extras.commands import running
from gateway.upstream.dial import make_tls
from gateway.upstream.resolver import Resolver

SIGNATURE: Final = "x-gateway-signature"
SECRET_BYTES: Final = 32
"""Random bytes of a holder's signing secret: as many as the hash has."""
LIMIT_SECONDS: Final = 10.0
"""Time for a whole delivery. A receiver that needs more should queue what it gets; a command is killed
with its whole process group."""
_OK: Final = range(200, 300)
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
"""The assigned part of IPv6. Outside it are networks' own prefixes, such as those of a NAT64."""
_NEVER: Final = tuple(map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "2002::/16", "3fff::/20")))
"""Networks for protocols, 6to4 and documentation: Python's versions differ on them."""
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})
"""The third quarter of an IPv6 address whose last quarter is an IPv4 address (RFC 5214)."""


class Undelivered(Exception):
    """A delivery failed. The text says why, and quotes nothing that the receiver sent."""


def sign(secret: str, body: bytes, at_seconds: int) -> str:
    """Return the value of the header: the time, and the HMAC-SHA256 of time and body."""
    # The time is signed as well, so that a receiver can refuse what somebody repeats later.
    signed = f"{at_seconds}.".encode() + body
    return f"t={at_seconds},v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


async def post(
    url: str, secret: str, body: bytes, *, at_seconds: int, public: bool,
    authorities: str = "", limit_seconds: float = LIMIT_SECONDS,
) -> None:  # fmt: skip
    """Post the body, once; with `public`, to public addresses only. Raises Undelivered."""
    headers = {"content-type": "application/json", SIGNATURE: sign(secret, body, at_seconds)}
    # aiohttp's own context trusts nobody here, see `memory.skip_certificates`.
    is_tls = url.lower().startswith("https:")
    connector = aiohttp.TCPConnector(
        ssl=await asyncio.to_thread(make_tls, authorities) if is_tls else True,
        resolver=_ThreadResolver(),
        use_dns_cache=False,  # a name is looked up, and its address checked, at each delivery
        force_close=True,
        socket_factory=_open_public if public else None,
    )
    try:
        async with (
            deadlines.limit_seconds(limit_seconds),
            aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar()
            ) as client,
            # A redirect could lead past the check of a holder's address.
            client.post(url, data=body, headers=headers, allow_redirects=False) as response,
        ):
            status = response.status
    except TimeoutError as error:
        raise Undelivered(f"no answer within {limit_seconds:g} s") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Undelivered(_describe(error)) from error
    if status not in _OK:
        more = "; redirects are not followed" if 300 <= status < 400 else ""  # noqa: PLR2004 - HTTP
        raise Undelivered(f"status {status}{more}")


def _describe(error: BaseException) -> str:
    """Describe a failure by its kind: texts of libraries may repeat the address, which may be secret."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Forbidden):
            return str(cause)
        cause = cause.__cause__ or cause.__context__
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "the host is unknown"
        case aiohttp.ClientSSLError() | aiohttp.ClientConnectorCertificateError():
            return ": ".join(filter(None, ("TLS failed", describe_tls(error))))
        case aiohttp.ClientConnectorError():
            return "no connection"
        case _:
            return f"the connection broke ({type(error).__name__})"


def _open_public(info: aiohttp.AddrInfoType) -> socket.socket:
    """Open the socket for an address, right before it is connected. Raises Forbidden."""
    family, kind, protocol, _, address = info
    require_public(address[0])
    opened = socket.socket(family, kind, protocol)
    opened.setblocking(False)
    return opened


class _ThreadResolver(AbstractResolver):
    """Look up a name in a separate thread, so that a hanging look-up delays nothing, not even the exit."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await Resolver(host, port).resolve()
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=kind,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for kind, address in found
            if family in {socket.AF_UNSPEC, kind}
        ]

    async def close(self) -> None:
        return


MAX_URL_CHARS: Final = 500
"""Characters of a holder's address: it has to fit into a line or two of the console."""


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
    if not _is_public(address):
        raise ValueError("must lead to a public address")


def require_public(host: object) -> None:
    """Raise Forbidden unless the text is a public address; a name is not an address."""
    try:
        # A scope such as `%eth0` is no part of the address.
        is_allowed = _is_public(ip_address(str(host).partition("%")[0]))
    except ValueError:
        is_allowed = False
    if not is_allowed:
        raise Forbidden("the address is not public")


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address is public. An embedded IPv4 address decides for an IPv6 address."""
    if any(address in network for network in _NEVER):
        return False
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return _is_public(address.ipv4_mapped)
        third, last = int(address) >> 32 & 0xFFFFFFFF, int(address) & 0xFFFFFFFF
        if third in _ISATAP and not _is_public(IPv4Address(last)):
            return False
        if address not in _GLOBAL_UNICAST:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


async def run_command(
    command: Sequence[str],
    body: bytes,
    *,
    limit_seconds: float = LIMIT_SECONDS,
    variables: Collection[str] = (),
) -> None:
    """Run the command, which has to exit with 0. Raises Undelivered."""
    try:
        await running.run_command(
            command, body + b"\n", limit_seconds=limit_seconds, variables=variables
        )
    except running.CommandFailed as error:
        raise Undelivered(str(error)) from error
