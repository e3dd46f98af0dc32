"""The headers `x-ratelimit-*`, which every caller gets: counts and Go durations, as OpenAI's API."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.dialects.records import RateLimit


def write_limits(limits: Iterable[RateLimit]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for one in limits:
        headers[f"x-ratelimit-limit-{one.name}"] = str(one.limit)
        headers[f"x-ratelimit-remaining-{one.name}"] = str(one.remaining)
        headers[f"x-ratelimit-reset-{one.name}"] = format_duration(one.reset_seconds)
    return headers


def format_duration(seconds: float) -> str:
    """Format a Go duration as OpenAI does: `12ms`, `1s`, `6m0s`."""
    milliseconds = max(0, round(seconds * 1000))
    if milliseconds < 1000:  # noqa: PLR2004 - a second
        return f"{milliseconds}ms"
    whole = -(-milliseconds // 1000)
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
