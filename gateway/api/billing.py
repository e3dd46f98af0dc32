"""The money of one request: the expected cost, the hold, and the one settlement.

    hold taken ── settle(verdict) ──> what was used is charged, then the caller gets its last bytes
        │                        ├──> what was expected is charged, if nobody knows what was used
        │                        └──> nothing is charged
        └─ raise_to(metered): more is known, so others are refused in time

`confirm` comes first; if it refuses, there is nothing to settle. `lifecycle` decides which
of the three charges applies. `Bill.settle` computes the charge and queues it in the ledger
(`ServingLedger.settle`), which commits it. Only the first settlement counts: a second one comes from a race
between an ending and a failure of the gateway, and nobody may be charged twice.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, assert_never

from gateway.api.front import KeyedCall
from gateway.api.keys import refuse_funds
from gateway.api.lifecycle import Owed, Verdict
from gateway.base import usage
from gateway.base.errors import BadRequest, GatewayError, NoFunds
from gateway.base.money import MAX_AMOUNT_NANO, MEDIA, NONE, Price, Tokens, compute_cost_nano
from gateway.base.prices import AppliedPrice, BillOptions
from gateway.config.records import Model
from gateway.dialects.wire.records import CompletionRequest
from gateway.ledger.base import Admission, Hold, Settlement
from gateway.ledger.budget_records import Budget
from gateway.ledger.call_records import Outcome
from gateway.ledger.records import MAX_INTEGER

TOO_DEAR: Final = (
    "This request may cost more than the gateway can hold for one: ask for fewer tokens, choices or"
    " calls of tools."
)


def open_bill(
    call: KeyedCall, request: CompletionRequest, model: Model, expected: usage.Expected
) -> Bill:
    """Take the hold. Raises BadRequest, RateLimited (tokens), InsufficientBalance, BalanceHeld, LedgerUnavailable."""
    rates, billing = call.rates, call.gateway.config.billing
    most = expected.limits.estimated_output
    likely = min(billing.hold_output_tokens * request.n, most)
    tokens = expect_tokens(expected, likely, model.prices.base)
    charge = expect_charge(tokens, expected.options, model, call.started_ms)
    full_nano = charge.cost_nano
    if full_nano > MAX_AMOUNT_NANO:
        raise BadRequest(TOO_DEAR)
    is_input_covered = not expected.options.cache and model.prices.input_classes == ("input",)
    is_all_held = most <= likely and not expected.most_input_tokens and is_input_covered
    if billing.full_hold_below and not is_all_held:
        full_nano = min(find_most_nano(expected, model, call.started_ms), MAX_AMOUNT_NANO)
    available, expected_tokens = call.key.account.available_nano, tokens.total
    rates.take_tokens(expected_tokens, time.monotonic() if call.waited_seconds else call.started)
    admission = Admission(
        request_id=call.request_id,
        model=model.id,
        provider=call.provider,
        price=charge.applied,
        hold_nano=charge.cost_nano,
        stream=request.stream,
        started_ms=call.started_ms,
        key_rate=rates.rate,
        account_rate=None if rates.above is None else rates.above.rate,
        expected_tokens=expected_tokens,
        full_nano=full_nano,
        full_below_nano=min(billing.full_hold_below * full_nano, MAX_INTEGER),
    )
    try:
        hold = call.gateway.ledger.hold(call.key, admission)
    except Exception as error:
        _undo(call, admission, error, call.key.budget)
        raise
    call.balance_nano = available
    return Bill(call, model, hold, charge)


def _undo(call: KeyedCall, admission: Admission, error: Exception, budget: Budget | None) -> None:
    """Undo the counts of a request that got no hold. Raises the refusal that NoFunds stands for."""
    call.rates.correct_tokens(admission.expected_tokens, 0)
    call.balance_nano = None
    if isinstance(error, NoFunds):
        raise refuse_funds(error.lack, call.key, budget, call.gateway.config) from None


Measure = Callable[[], usage.Metered]


@dataclass(slots=True, eq=False, repr=False)
class Bill:
    """The hold of one admitted request, and its settlement."""

    _call: KeyedCall
    _model: Model
    _hold: Hold
    _expected: Charge
    """The charge that the hold covers; raised with what a stream has used so far."""
    attempts: int = 0
    """The number of tries to get a reply, by any route."""
    _first_byte_ms: int | None = None

    async def confirm(self) -> None:
        """Return once the hold is in force. Raises LedgerUnavailable, RateLimited, InsufficientBalance, BalanceHeld."""
        try:
            await self._call.gateway.ledger.confirm(self._hold)
        except GatewayError as error:
            _undo(self._call, self._hold.admission, error, self._hold.budget)
            raise

    async def wait_admitted(self) -> None:
        """Return once the request's row is committed. Raises LedgerUnavailable."""
        await self._call.gateway.ledger.wait_admitted(self._hold)

    def note_first_byte(self) -> None:
        """Note that the caller's first byte leaves now; later calls change nothing."""
        if self._first_byte_ms is None:
            self._first_byte_ms = int((time.monotonic() - self._call.started) * 1000)

    def raise_to(self, metered: usage.Metered) -> None:
        """Raise the hold to what a reply has used so far, if that is more."""
        charge = self._price(metered)
        if charge.cost_nano > self._expected.cost_nano:
            self._expected = charge
            self._call.gateway.ledger.raise_hold(self._hold, charge.cost_nano)

    def settle(self, verdict: Verdict, measure: Measure | None) -> Awaitable[None] | None:
        """Queue the charge that the verdict asks for; return None if there is none to wait for.

        The result is done once the charge is committed. `measure`, which tells what was used, is None if no
        provider answered.
        """
        call, admission = self._call, self._hold.admission
        ledger, ended_ms = call.gateway.ledger, call.gateway.ledger.clock()
        charge, provider_cost_nano = self._find_charge(verdict, measure, ended_ms)
        settlement = Settlement(
            outcome=verdict.outcome,
            provider=call.provider,
            attempts=self.attempts,
            status=verdict.status,
            tokens=charge.metered.tokens,
            tool_calls=charge.metered.tool_calls,
            price=charge.applied,
            cost_nano=charge.cost_nano,
            estimated=charge.metered.estimated,
            first_byte_ms=self._first_byte_ms,
            ended_ms=ended_ms,
            # No byte of a JSON reply leaves before its charge is committed; see `UNCOMMITTED`.
            withdraw_if_late=not admission.stream,
            provider_cost_nano=provider_cost_nano,
            reported_cost_nano=charge.metered.reported_cost_nano,
        )
        settled = ledger.settle(self._hold, settlement)
        # The ledger keeps the first settlement only, so the log line must show that one.
        if call.settlement is None:
            call.settlement = settlement
            call.rates.correct_tokens(admission.expected_tokens, settlement.tokens.total)
        # Voids are not waited for: no byte of the reply depends on their commit.
        return None if verdict.owed is Owed.NOTHING else settled

    def _find_charge(
        self, verdict: Verdict, measure: Measure | None, now_ms: int
    ) -> tuple[Charge, int | None]:
        """Return the charge, and its cost at the provider's prices, if those are configured."""
        call, provider = self._call, self._call.provider
        match verdict.owed:
            case Owed.NOTHING:
                nothing = usage.Metered(Tokens(), estimated=False)
                return Charge(nothing, self._expected.applied, 0), None
            case Owed.EXPECTED:
                # The usage is unknown, as the reply was not read to its end. The expected cost is
                # charged, or the delivered output if it costs more. A hold above that (made because the
                # balance is small) is no reason to charge the worst case.
                if measure is not None:
                    self.raise_to(measure())
                charge = self._expected
            case Owed.USAGE:
                assert measure is not None
                metered = measure()
                if metered.unreported:
                    call.gateway.missing_usages.note(provider, self._model.id, now_ms)
                charge = self._price(metered)
            case _:
                assert_never(verdict.owed)
        if (costs := self._model.costs.get(provider)) is None:
            return charge, None
        metered = charge.metered
        applied = costs.find(metered.tokens, metered.terms, call.started_ms)
        cost_nano = make_charge(metered, applied).cost_nano
        # A cost that is too large to be stored is not a real one.
        return charge, cost_nano if cost_nano <= MAX_AMOUNT_NANO else None

    def note_withdrawal(self, outcome: Outcome, status: int) -> None:
        """Note that the ledger withdrew a charge that it could not commit in time."""
        settlement = self._call.settlement
        assert settlement is not None
        self._call.settlement = replace(
            settlement,
            outcome=outcome,
            status=status,
            tokens=Tokens(),
            cost_nano=0,
            estimated=False,
        )

    def _price(self, metered: usage.Metered) -> Charge:
        """Price a reply. A cost beyond what the ledger can hold comes from a broken report."""
        prices, at_ms = self._model.prices, self._call.started_ms
        charge = make_charge(metered, prices.find(metered.tokens, metered.terms, at_ms))
        return charge if charge.cost_nano <= MAX_AMOUNT_NANO else self._expected


def expect_tokens(expected: usage.Expected, output_tokens: int, price: Price) -> Tokens:
    """Put the expected tokens into the classes that the request asks for."""
    options, audio = expected.options, min(expected.audio_tokens, expected.input_tokens)
    tokens = Tokens(audio, output=output_tokens, media=NONE)
    match options.cache:
        case "1h":
            tokens.cache_write_1h = expected.input_tokens - audio
        case "5m":
            tokens.cache_write = expected.input_tokens - audio
        case _:
            tokens.input = expected.input_tokens
    if audio or options.media:
        dearest = sorted(options.media, key=lambda name: getattr(price, name) or 0)[-1:]
        tokens.media = {"audio_input": audio, **dict.fromkeys(dearest, output_tokens)}
    return tokens


@dataclass(slots=True)
class Charge:
    """A cost and its reasons, from which an audit computes it again."""

    metered: usage.Metered
    applied: AppliedPrice
    cost_nano: int


def make_charge(metered: usage.Metered, applied: AppliedPrice) -> Charge:
    """Price the metered usage. Without a bill, a price that follows the bill is an estimate."""
    price, bill_nano = applied.price, metered.reported_cost_nano
    if price.reported is not None and bill_nano is None:
        metered = replace(metered, estimated=True)
    cost_nano = compute_cost_nano(metered.tokens, price, metered.tool_calls, bill_nano)
    return Charge(metered, applied, cost_nano)


def expect_charge(tokens: Tokens, options: BillOptions, model: Model, at_ms: int) -> Charge:
    """Price the expected usage at the dearest price that may apply."""
    # Only the reply tells which tier and price apply, and the hold has to cover each of them.
    applied = model.prices.find_dearest(tokens, options, at_ms)
    return make_charge(usage.Metered(tokens, True, options.tool_calls), applied)


def find_most_nano(expected: usage.Expected, model: Model, at_ms: int) -> int:
    """Return the most that a request may cost: all output, and all input that its bytes do not bound."""
    output, prices = expected.limits.estimated_output, model.prices
    most_input = expected.most_input_tokens
    if most_input:
        expected = replace(expected, input_tokens=most_input)
    tokens = expect_tokens(expected, output, prices.base)
    media = [tokens.media]
    if most_input:
        made = {name: n for name, n in tokens.media.items() if MEDIA[name] == "output"}
        # A file may be of any medium, whatever its part says.
        media += ({**made, name: most_input} for name, side in MEDIA.items() if side == "input")
    uses, tokens_in = [tokens], expected.input_tokens
    for name in prices.input_classes:
        if most_input or getattr(tokens, name) < tokens_in:
            uses += (Tokens(**{name: tokens_in}, output=output, media=one) for one in media)
    return max(expect_charge(use, expected.options, model, at_ms).cost_nano for use in uses)
