"""The log line of each request: who, what, how it ended, its cost. Never a key, a prompt or a reply.

Lines are collected and handed on ten times a second: waking the thread that writes the log costs
more than the rest of a line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Literal

import orjson

from gateway.api.state import Call
from gateway.money import format_amount

FLUSH_SECONDS: Final = 0.1
"""How long lines are collected. People can still follow the log at this delay."""


class AccessLog:
    """Collects the lines of a serving process; `out` takes many at once."""

    __slots__ = ("_format", "_lines", "_out", "_timer")

    def __init__(self, shape: Literal["human", "json"], out: Callable[[str], None]) -> None:
        self._format = _FORMATS[shape]
        self._out = out
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def write(self, call: Call, status: int) -> None:
        self._lines.append(self._format(describe_call(call, status)))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        """Hand on the collected lines."""
        self._timer = None
        lines, self._lines = self._lines, []
        self._out("".join(lines))


def describe_call(call: Call, status: int) -> dict[str, str | int]:
    """Return the facts in the log line of a request that has ended; `time` is its start in UTC."""
    key, tokens = call.key, call.tokens
    came = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(call.started_ms // 1000))
    facts: dict[str, str | int] = {
        "time": f"{came}.{call.started_ms % 1000:03d}Z",
        "request": call.request_id,
        "status": status,
        "outcome": call.outcome or ("served" if status < 400 else "refused"),  # noqa: PLR2004
    }
    facts |= call.console
    if key is not None:
        facts |= {"account": key.account.name, "key": key.id}
    if call.model:
        facts |= {
            "model": call.model,
            "provider": call.provider or "-",
            "attempts": call.attempts,
            "input": tokens.input,
            "cached": tokens.cached_input,
            "written": tokens.cache_write,
            "output": tokens.output,
            "cost": format_amount(call.cost_nano),
        }
    if call.failed:
        facts["failed"] = call.failed
    if call.first_byte_ms is not None:
        facts["first_byte_ms"] = call.first_byte_ms
    facts["total_ms"] = int((time.monotonic() - call.started) * 1000)
    return facts


def format_human(facts: dict[str, str | int]) -> str:
    """Format `time request name=value ...`, with quotes around a value that has a space."""
    when, request, *rest = facts.items()
    pairs = [f"{name}={_quote(value) if isinstance(value, str) else value}" for name, value in rest]
    return f"{when[1]} {request[1]} {' '.join(pairs)}\n"


def format_json(facts: dict[str, str | int]) -> str:
    return orjson.dumps(facts).decode() + "\n"


_FORMATS: Final[dict[str, Callable[[dict[str, str | int]], str]]] = {
    "human": format_human,
    "json": format_json,
}


def _quote(text: str) -> str:
    return orjson.dumps(text).decode() if " " in text or '"' in text else text
