"""The log line of each request that ended, without secrets, prompts and replies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Final, Literal

import orjson

from gateway.api.front import Call
from gateway.base.money import Tokens, format_amount
from gateway.config.records import Config

LINES_SECONDS: Final = 0.1
"""How long notes are collected. People can still follow the log at this delay."""
BATCH_LINES: Final = 64
"""Lines made at once, in some 0.5 ms: the thread holds the interpreter's lock that long."""

REFUSED: Final = 400
"""The first status that is an error."""
NOTHING: Final = Tokens()

_Ended = tuple[Call, int, str, float]
"""A call that nothing changes any more, its status, its account's name and its end: an account can
be renamed before the line is made. The end is in monotonic seconds."""


class AccessLog:
    """Notes ended requests. `out` takes a function that makes the lines of several, and their number."""

    __slots__ = ("_ended", "_format", "_out", "_timer")

    def __init__(
        self, shape: Literal["human", "json"], out: Callable[[Callable[[], str], int], None]
    ) -> None:
        self._format = _FORMATS[shape]
        self._out = out
        self._ended: list[_Ended] = []
        self._timer: asyncio.TimerHandle | None = None

    def reconfigure(self, config: Config) -> None:
        """Write the lines that are made from now on in the shape that is set."""
        self._format = _FORMATS[config.server.log]

    def write(self, call: Call, status: int) -> None:
        key = call.key
        self._ended.append((call, status, key.account.name if key else "", time.monotonic()))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINES_SECONDS, self.flush)

    def flush(self) -> None:
        """Hand on the collected notes."""
        self._timer = None
        ended, self._ended = self._ended, []
        for start in range(0, len(ended), BATCH_LINES):
            batch = ended[start : start + BATCH_LINES]
            self._out(partial(self._make_lines, batch), len(batch))

    def _make_lines(self, batch: Sequence[_Ended]) -> str:
        return "".join([self._format(describe_call(*ended)) for ended in batch])


def describe_call(
    call: Call, status: int, account: str, ended_seconds: float
) -> dict[str, str | int]:
    """Return the facts in the log line of a request that has ended; `time` is its start in UTC."""
    key, settled = call.key, call.settlement
    came = _format_second(call.started_ms // 1000)
    facts: dict[str, str | int] = {
        "time": f"{came}.{call.started_ms % 1000:03d}Z",
        "request": call.request_id,
        "status": status,
        "outcome": ("served" if status < REFUSED else "refused")
        if settled is None
        else settled.outcome,
    }
    facts |= call.visit
    if key is not None:
        facts |= {"account": account, "key": key.id}
    if call.error_code is not None:
        facts["code"] = call.error_code
    if call.model:
        tokens = NOTHING if settled is None else settled.tokens
        facts |= {
            "model": call.model,
            "provider": call.provider or "-",
            "attempts": 0 if settled is None else settled.attempts,
            "input": tokens.input,
            "cached": tokens.cached_input,
            "written": tokens.cache_write,
            "output": tokens.output,
            "cost": format_amount(0 if settled is None else settled.cost_nano),
        }
    elif call.asked_model:
        facts["model"] = call.asked_model
    if call.failed:
        facts["failed"] = call.failed
    if settled is not None and settled.first_byte_ms is not None:
        facts["first_byte_ms"] = settled.first_byte_ms
    facts["total_ms"] = int((ended_seconds - call.started) * 1000)
    return facts


@lru_cache(maxsize=2)
def _format_second(unix_seconds: int) -> str:
    """Format a second in UTC. Kept, as lines that are made together share it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(unix_seconds))


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
