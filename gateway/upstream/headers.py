"""The headers of requests to providers, and of the answers that say when to come again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from yarl import URL

from gateway.config.records import Provider

_HEADERS: Final = {
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": "gateway",
}


def read_retry_after(value: str) -> float | None:
    """Read the seconds of a Retry-After header, a number or a date (RFC 9110 §10.2.3); None if unusable."""
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        # The date may have passed on its way, or our clock may be ahead.
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError, TypeError):
        return None


def make_own_headers(provider: Provider, url: URL, auth: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of every request to a provider, without those of the caller."""
    host = url.host_port_subcomponent or ""
    return {"Host": host, **_HEADERS, **provider.headers, **auth}


def format_headers(*sources: Mapping[str, str]) -> list[str]:
    """Write header lines. If names differ only in case, the last header counts."""
    # Names ignore case (RFC 9110 §5.1), and a provider may take either of two.
    by_name = {name.lower(): (name, value) for source in sources for name, value in source.items()}
    return [f"{name}: {value}" for name, value in by_name.values()]
