"""The money of one request: what it is expected to cost, its hold, and its one settlement.

    hold taken ── settle(tokens) ──> charged, then the caller's last bytes
               └─ void(outcome) ───> nothing charged

The first of the two that is called counts; the ledger answers a second with the first's future.
"""

from __future__ import annotations

import asyncio
import time

from gateway.config import Model
from gateway.dialects.base import CompletionRequest
from gateway.ledger.base import Admission, Hold, Outcome, Settlement
from gateway.money import Tokens, compute_cost_nano
from gateway.state import Call, Gateway
from gateway.times import unix_ms
from gateway.usage import IMPLAUSIBLE_FACTOR, MAX_PLAUSIBLE_TOKENS, UsageLimits, estimate_tokens


def estimate_input(request: CompletionRequest) -> int:
    return estimate_tokens(request.text_bytes, request.files)


def make_usage_limits(request: CompletionRequest, model: Model) -> UsageLimits:
    return UsageLimits(
        input=min(IMPLAUSIBLE_FACTOR * model.max_input_tokens, MAX_PLAUSIBLE_TOKENS),
        output=min(IMPLAUSIBLE_FACTOR * model.max_output_tokens * request.n, MAX_PLAUSIBLE_TOKENS),
    )


def expect_tokens(request: CompletionRequest, model: Model, hold_output_tokens: int) -> Tokens:
    """What a hold is taken for (design.md §5)."""
    output = min(hold_output_tokens, model.max_output_tokens)
    if request.max_tokens is not None:
        output = min(output, request.max_tokens)
    return Tokens(input=estimate_input(request), output=output * request.n)


class Bill:
    """One admitted request and its hold."""

    __slots__ = ("_call", "_expected", "_gateway", "_hold", "_model")

    def __init__(
        self, gateway: Gateway, call: Call, request: CompletionRequest, model: Model, provider: str
    ) -> None:
        """Take the hold. Raises RateLimited (tokens), then what `Ledger.hold` raises."""
        assert call.key is not None
        assert call.rates is not None
        self._gateway = gateway
        self._call = call
        self._model = model
        expected = expect_tokens(request, model, gateway.config.billing.hold_output_tokens)
        self._expected = expected.total
        available = call.key.account.available_nano
        call.rates.take_tokens(expected.total, time.monotonic())
        admission = Admission(
            request_id=call.request_id,
            model=model.id,
            provider=provider,
            price=model.price,
            hold_nano=compute_cost_nano(expected, model.price),
            stream=request.stream,
            started_ms=call.started_ms,
        )
        try:
            self._hold: Hold = gateway.ledger.hold(call.key, admission)
        except Exception:
            call.rates.correct_tokens(expected.total, 0)
            raise
        call.balance_nano = available

    async def wait_admitted(self) -> None:
        """Return once the request's row is committed. Raises LedgerUnavailable."""
        await self._gateway.ledger.wait_admitted(self._hold)

    def settle(
        self, outcome: Outcome, status: int, tokens: Tokens, *, estimated: bool
    ) -> asyncio.Future[None]:
        """Queue the charge for `tokens`; done once committed, see `Ledger.settle`."""
        cost_nano = compute_cost_nano(tokens, self._model.price)
        return self._resolve(outcome, status, tokens, cost_nano, estimated=estimated)

    def void(self, outcome: Outcome, status: int) -> None:
        """Queue the end of a request that costs nothing."""
        self._resolve(outcome, status, Tokens(), 0, estimated=False)

    def note_withdrawal(self, status: int) -> None:
        """The charge of a JSON reply could not be written, so the ledger took it back."""
        call = self._call
        call.outcome, call.status = "ledger_error", status
        call.tokens, call.cost_nano = Tokens(), 0

    def _resolve(
        self, outcome: Outcome, status: int, tokens: Tokens, cost_nano: int, *, estimated: bool
    ) -> asyncio.Future[None]:
        call = self._call
        if call.outcome is None:
            call.outcome, call.status = outcome, status
            call.tokens, call.cost_nano = tokens, cost_nano
            if call.rates is not None:
                call.rates.correct_tokens(self._expected, tokens.total)
        return self._gateway.ledger.settle(
            self._hold,
            Settlement(
                outcome=outcome,
                provider=call.provider,
                attempts=call.attempts,
                status=status,
                tokens=tokens,
                cost_nano=cost_nano,
                estimated=estimated,
                first_byte_ms=call.first_byte_ms,
                ended_ms=unix_ms(),
            ),
        )
