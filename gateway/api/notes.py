"""The headers of a request's reply, its log line, and counts for operators.

What is logged or counted is never a key, a prompt or a reply.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Literal

import orjson

from gateway.api.state import Call
from gateway.config.records import Config
from gateway.errors import GatewayError, InternalError, InvalidKey, OutOfResources, UpstreamError
from gateway.ledger.alert_records import UpstreamFailure
from gateway.money import format_amount
from gateway.upstream.forwarder import take_out
from gateway.upstream.routing import Candidate


def make_headers(call: Call) -> Mapping[str, str]:
    """Make the headers that every reply to this request carries."""
    headers = dict(call.dialect.reply_headers(call.request_id))
    if call.rates is not None and (limits := call.rates.list_limits(time.monotonic())):
        headers.update(call.dialect.limit_headers(limits, call.started_ms))
    if call.balance_nano is not None:
        headers["x-gateway-balance"] = format_amount(call.balance_nano)
    return headers


MAX_REASON_CHARS: Final = 200
"""Characters of a failure's reason: it has to fit into a line or two."""


_PLAIN: Final = re.compile(r"[a-z_]{1,40}")


def find_code(error: GatewayError) -> str:
    """Return an error's code for logs and tables, or else its type: a provider's code is any text."""
    return error.code if error.code and _PLAIN.fullmatch(error.code) else error.type


def note_refusal(call: Call, error: GatewayError) -> None:
    """Count a request that the gateway refused itself, before it was admitted.

    An unknown key has no account. What else comes without a key, such as an unknown path, is no
    request of anybody.
    """
    # An admitted request is in the ledger, and failures of ours or a provider's are no refusals.
    if call.outcome is not None or isinstance(error, UpstreamError | InternalError):
        return
    if call.key is None and not isinstance(error, InvalidKey):
        return
    account_id, key_id = (None, "") if call.key is None else (call.key.account.id, call.key.id)
    named = call.model or call.asked_model
    # Names that callers make up must not fill the table of sums.
    model = named if named in call.gateway.config.models else ""
    call.gateway.ledger.note_refusal(
        account_id, find_code(error), model, call.request_id, named=named, key_id=key_id
    )


def note_upstream_call(call: Call, candidate: Candidate, error: BaseException | None) -> None:
    """Count a request that went to a provider, which failed, or rejected it, if `error` is the provider's."""
    if isinstance(error, OutOfResources):
        return  # it did not go out
    failure = None
    if isinstance(error, UpstreamError) or (
        isinstance(error, GatewayError) and error.upstream_status is not None
    ):
        failure = _describe_failure(call, candidate, error)
    call.gateway.ledger.note_upstream_call(
        candidate.provider.name, candidate.target.upstream_model, failure
    )


def _describe_failure(call: Call, candidate: Candidate, error: GatewayError) -> UpstreamFailure:
    """Describe a failure by its kind alone: the provider's words may quote the caller's."""
    candidate.provider.forwarder.redact(error)
    config = candidate.provider.config
    path = candidate.paths[call.stream] or candidate.exchange.upstream.path
    reason = error.cause
    if isinstance(error, UpstreamError) and error.upstream_status is not None and error.alarm:
        reason = f"{reason}: {error.alarm}"
    return UpstreamFailure(
        at_ms=call.gateway.ledger.clock(),
        request_id=call.request_id,
        status=error.upstream_status,
        reason=reason[:MAX_REASON_CHARS],
        url=take_out(f"{config.base_url}{path}", config.api_keys) if config.base_url else "",
        **error.provider_error._asdict(),
        rejected=not isinstance(error, UpstreamError),
    )


FLUSH_SECONDS: Final = 0.1
"""How long notes are collected. People can still follow the log at this delay."""
BATCH_LINES: Final = 64
"""Lines made at once, in some 0.5 ms: the thread holds the interpreter's lock that long."""

_Ended = tuple[Call, int, str, float]
"""A call that nothing changes any more, its status, its account's name and its end: an account can
be renamed before the line is made. The end is in monotonic seconds."""


class AccessLog:
    """Notes the requests that ended. `out` takes what makes the lines of some, and their number."""

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
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)

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
    key, tokens = call.key, call.tokens
    came = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(call.started_ms // 1000))
    facts: dict[str, str | int] = {
        "time": f"{came}.{call.started_ms % 1000:03d}Z",
        "request": call.request_id,
        "status": status,
        "outcome": call.outcome or ("served" if status < 400 else "refused"),  # noqa: PLR2004
    }
    facts |= call.visit
    if key is not None:
        facts |= {"account": account, "key": key.id}
    if call.error_code is not None:
        facts["code"] = call.error_code
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
    elif call.asked_model:
        facts["model"] = call.asked_model
    if call.failed:
        facts["failed"] = call.failed
    if call.first_byte_ms is not None:
        facts["first_byte_ms"] = call.first_byte_ms
    facts["total_ms"] = int((ended_seconds - call.started) * 1000)
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
