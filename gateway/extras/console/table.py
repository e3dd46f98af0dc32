"""The table [console] of gateway.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from gateway.config.reader import Setting
from gateway.config.records import ReadTable
from gateway.config.scalars import matching
from gateway.config.values import RESERVED_HEADERS

OTHERS_HEADERS: Final = frozenset(
    {"forwarded", "idempotency-key", "origin", "sec-fetch-site", "user-agent", "x-forwarded-for"}
)
"""Headers that the console reads for other purposes, so `identity_header` can be none of them."""
_header_name = matching(r"[A-Za-z][A-Za-z0-9-]{0,63}", 'a header\'s name such as "Remote-User"')


def identity_header(value: object) -> str:
    """Read the name of the header by which a proxy names an account."""
    name: str = _header_name(value)
    if name.lower() in RESERVED_HEADERS | OTHERS_HEADERS:
        raise ValueError(f"must be a header that names an account; {name} has another meaning")
    return name


@dataclass(frozen=True, slots=True)
class Console:
    identity_header: Annotated[str | None, Setting(identity_header, None)]
    """The header by which a trusted proxy names the account that it has signed in."""


def check_values(table: ReadTable) -> Mapping[str, object]:
    """Refuse `identity_header` without `trusted_proxies`. Raises ConfigError."""
    is_named, server = table.values["identity_header"] is not None, table.core.server
    if is_named and server is not None and not server.trusted_proxies:
        raise table.place.error(
            "identity_header",
            "needs trusted_proxies under [server]: the header counts only if one of them sends it",
        )
    return table.values
