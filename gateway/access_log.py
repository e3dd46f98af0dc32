"""One line per request: who, what, how it ended, what it cost. Never a key, a prompt or a reply."""

from __future__ import annotations

import logging
import time

from gateway.money import format_amount
from gateway.state import Call

log = logging.getLogger("gateway.access")


def log_call(call: Call, status: int) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    key = call.key
    log.info(
        "%s status=%d outcome=%s account=%s key=%s model=%s provider=%s attempts=%d "
        "input=%d cached=%d written=%d output=%d cost=%s first_byte_ms=%s total_ms=%d",
        call.request_id,
        status,
        call.outcome or ("served" if status < 400 else "refused"),  # noqa: PLR2004
        "-" if key is None else key.account.id,
        "-" if key is None else key.id,
        call.model or "-",
        call.provider or "-",
        call.attempts,
        call.tokens.input,
        call.tokens.cached_input,
        call.tokens.cache_write,
        call.tokens.output,
        format_amount(call.cost_nano),
        "-" if call.first_byte_ms is None else call.first_byte_ms,
        int((time.monotonic() - call.started) * 1000),
    )
