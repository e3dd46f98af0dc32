"""The table [metrics] of gateway.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from gateway.base.addresses import list_reachable
from gateway.config.reader import Setting, show
from gateway.config.scalars import text
from gateway.config.secrets import ReadTable
from gateway.config.values import MAX_PORT


def address(value: object) -> tuple[str, int]:
    """Read a host and a port to listen on; an IPv6 address stands in brackets."""
    host, colon, port = text(value).rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if is_bracketed else host
    # `isdigit` takes digits of all scripts, and `int`
    # raises an error of its own for thousands of them.
    is_number = port.isascii() and port.isdigit() and 0 < int(port[:6]) <= MAX_PORT
    if not colon or not host or not is_number or (":" in host) is not is_bracketed:
        raise ValueError(f'must be host and port such as "127.0.0.1:9090", not {show(value)}')
    return host, int(port)


@dataclass(frozen=True, slots=True)
class Metrics:
    listen: Annotated[tuple[str, int] | None, Setting(address, None)]
    """Host and port; None means off."""


def finish(table: ReadTable) -> Mapping[str, object]:
    """Refuse the address of [server]: the start would blame another program. Raises ConfigError."""
    listen, server = table.values["listen"], table.others.get("server")
    if listen is not None and server is not None and listen[1] == server["port"]:
        ours, callers = (list_reachable(host) for host in (listen[0], server["host"]))
        if set(ours) & set(callers):
            raise table.place.error("listen", "is the address of [server]; take another port")
    return table.values
