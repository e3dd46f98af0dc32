"""One line per request: who, what, how it ended, what it cost. Never a key, a prompt or a reply.

Lines are gathered and written a few times a second: a write per request would cost more than the
request's own look at the ledger.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Final, TextIO

from gateway.money import format_amount
from gateway.state import Call

FLUSH_SECONDS: Final = 0.1


class AccessLog:
    """The lines of one serving process, on stderr."""

    __slots__ = ("_lines", "_out", "_timer")

    def __init__(self, out: TextIO = sys.stderr) -> None:
        self._out = out
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def write(self, call: Call, status: int) -> None:
        self._lines.append(format_call(call, status))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        self._timer = None
        if self._lines:
            self._out.write("".join(self._lines))
            self._out.flush()
            self._lines.clear()


def format_call(call: Call, status: int) -> str:
    """The line of a request that has ended, its time the one at which it came."""
    key, tokens = call.key, call.tokens
    came = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(call.started_ms // 1000))
    who = "account=- key=-" if key is None else f"account={key.account.id} key={key.id}"
    outcome = call.outcome or ("served" if status < 400 else "refused")  # noqa: PLR2004
    line = (
        f"{came}.{call.started_ms % 1000:03d}Z {call.request_id} status={status} "
        f"outcome={outcome} {who} total_ms={int((time.monotonic() - call.started) * 1000)}"
    )
    if not call.model:
        return line + "\n"
    first_byte = "-" if call.first_byte_ms is None else call.first_byte_ms
    return (
        f"{line} model={call.model} provider={call.provider or '-'} attempts={call.attempts} "
        f"input={tokens.input} cached={tokens.cached_input} written={tokens.cache_write} "
        f"output={tokens.output} cost={format_amount(call.cost_nano)} "
        f"first_byte_ms={first_byte}\n"
    )
