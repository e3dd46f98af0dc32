"""One signed request to a webhook.

It is aiohttp's client: the server loads that anyway, it verifies TLS, and it lets the address of each
connection be checked. The forwarder's own client is made for pools, streams and retries of completions.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from gateway.alerts.guard import Forbidden, require_public
from gateway.upstream.resolver import Resolver

SIGNATURE: Final = "x-gateway-signature"
LIMIT_SECONDS: Final = 10.0
"""Time for a whole delivery. A receiver that needs more should queue what it gets."""
_OK: Final = range(200, 300)


class Undelivered(Exception):
    """A delivery failed. The text says why, and quotes nothing of the receiver."""


def sign(secret: str, body: bytes, at_seconds: int) -> str:
    """Return the value of the header: the time, and the HMAC-SHA256 of time and body."""
    signed = f"{at_seconds}.".encode() + body
    return f"t={at_seconds},v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


async def post(
    url: str, secret: str, body: bytes, *, at_seconds: int, public: bool,
    limit_seconds: float = LIMIT_SECONDS,
) -> None:  # fmt: skip
    """Post the body, once; with `public`, to public addresses only. Raises Undelivered."""
    headers = {"content-type": "application/json", SIGNATURE: sign(secret, body, at_seconds)}
    connector = aiohttp.TCPConnector(
        resolver=_ThreadResolver(),
        use_dns_cache=False,
        force_close=True,
        socket_factory=_open_public if public else None,
    )
    try:
        async with (
            asyncio.timeout(limit_seconds),
            aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar()
            ) as client,
            client.post(url, data=body, headers=headers, allow_redirects=False) as response,
        ):
            status = response.status
    except TimeoutError as error:
        raise Undelivered(f"no answer within {limit_seconds:g} s") from error
    except Forbidden as error:
        raise Undelivered(str(error)) from error
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
            return "TLS failed"
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
    """Look a name up in a thread of its own, so that one that hangs holds nothing up, not even the end."""

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
