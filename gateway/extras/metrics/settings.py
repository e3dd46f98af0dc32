"""The table [metrics] of gateway.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gateway.config.reader import Setting, show
from gateway.config.scalars import text
from gateway.config.values import MAX_PORT


def address(value: object) -> tuple[str, int]:
    """Read a host and a port to listen on. An IPv6 address is written in brackets."""
    host, colon, port = text(value).rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if is_bracketed else host
    # `isdigit` takes digits of all scripts, and `int` raises an error for thousands of digits.
    is_number = port.isascii() and port.isdigit() and 0 < int(port[:6]) <= MAX_PORT
    if not colon or not host or not is_number or (":" in host) is not is_bracketed:
        raise ValueError(f'must be host and port such as "127.0.0.1:9090", not {show(value)}')
    return host, int(port)


@dataclass(frozen=True, slots=True)
class Metrics:
    listen: Annotated[tuple[str, int] | None, Setting(address, None)]
    """Host and port; None means off."""
