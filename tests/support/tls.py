"""A server with a certificate of a private authority: `certificates.pem` has the chain."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

CHAIN: Final = Path(__file__).with_name("certificates.pem")
LEAF, MIDDLE, ROOT = (
    f"-----BEGIN CERTIFICATE-----{one}"
    for one in CHAIN.read_text().split("-----BEGIN CERTIFICATE-----")[1:]
)
REPLY: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


@contextlib.asynccontextmanager
async def serve_tls() -> AsyncIterator[str]:
    """Answer everything with an empty object; the value is the address."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CHAIN)

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(REPLY)
        writer.close()

    server = await asyncio.start_server(reply, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
