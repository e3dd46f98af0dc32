"""Write a round's items as the JSON that `run_round` takes, and read its answer."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, cast

import orjson

from gateway.base.errors import GatewayError, Lack, NoFunds
from gateway.extras.postgres.shared import SharedReport
from gateway.ledger import budget_records, key_records
from gateway.ledger.base import Hold, Settlement, write_end
from gateway.ledger.serving.queue import Item

_NO_RATE: Final = (0, 0, 0)
"""Requests and tokens per minute, and requests at once: no limit."""
_US_SECONDS: Final = 1e-6
"""A microsecond, in which the scripts count waits."""


@dataclass(frozen=True, slots=True)
class Declined:
    """A request that was not admitted: the reason, and the amounts spent by now."""

    reason: list[Any]
    balance_nano: int
    spent_nano: int
    budget: tuple[int, int] | None
    """The first day of the period of the key's budget, and what is spent of it."""


@dataclass(slots=True)
class RoundAnswer:
    """The result of a round, by request id."""

    settled: set[str] = field(default_factory=set)
    others: dict[str, str] = field(default_factory=dict)
    """The states of requests to settle that were settled before."""
    admitted: set[str] = field(default_factory=set)
    in_full: set[str] = field(default_factory=set)
    """Admitted requests that hold all that they may cost."""
    declined: dict[str, Declined] = field(default_factory=dict)
    balances_nano: dict[int, int] = field(default_factory=dict)
    spent_nano: dict[str, int] = field(default_factory=dict)
    budgets: list[tuple[int, int, int]] = field(default_factory=list)
    """Id, first day of the period, spent."""
    locked: AbstractSet[int] = frozenset()
    """Accounts whose items were left out because another program has locked their rows."""
    doubted: AbstractSet[str] = frozenset()
    """Requests of an earlier round without an answer, which may have ended them."""


def write_settlements(items: Iterable[Item], now_ms: int) -> bytes:
    """Write the ends of requests that are admitted."""
    # Times are sent as milliseconds ago: the nodes' clocks differ, and the database's counts.
    return orjson.dumps(
        [
            _describe_end(place, item.hold, item.settlement, now_ms)
            for place, item in enumerate(items)
            if item.settlement is not None
        ]
    )


def write_raises(items: Iterable[Item]) -> bytes:
    """Write holds that are raised to their present amounts."""
    raises = []
    for item in items:
        hold = item.hold
        ids = {"id": item.request_id, "account_id": hold.account.id}
        raises.append({**ids, "amount_nano": hold.amount_nano})
    return orjson.dumps(raises)


def write_admissions(items: Iterable[Item], in_doubt: Container[str], now_ms: int) -> bytes:
    """Write requests to admit; those in doubt may have been admitted, so they are looked up."""
    return orjson.dumps(
        [
            _describe_start(place, item.hold, now_ms, again=item.request_id in in_doubt)
            for place, item in enumerate(items)
        ]
    )


def write_prices(items: Collection[Item], known: Container[int]) -> tuple[bytes, set[int]]:
    """Write the prices of the items that the database may lack; return their ids, too."""
    applied = [item.hold.admission.price for item in items]
    applied += (item.settlement.price for item in items if item.settlement is not None)
    new = {price.id: price.text for price in applied if price.id not in known}
    return orjson.dumps([{"id": k, "price": text} for k, text in new.items()]), set(new)


def read_answer(text: str | bytes, *, doubted: AbstractSet[str] = frozenset()) -> RoundAnswer:
    """Read what `run_round` answers, or `run_round_apart`."""
    told = orjson.loads(text)
    parts = told.get("parts", [told])
    done = _join(part["done"] or {} for part in parts)
    asked = _join(part["admitted"] or {} for part in parts)
    return RoundAnswer(
        locked=frozenset(told.get("locked", ())),
        settled=set(done.get("settled", ())),
        others={id_: state for id_, state, _ in done.get("others", ())},
        admitted=set(asked.get("admitted", ())),
        in_full=set(asked.get("in_full", ())),
        declined={id_: Declined(*rest) for id_, *rest in asked.get("declined", ())},
        balances_nano=dict(done.get("balances", ())),
        spent_nano=dict(done.get("spent", ())),
        budgets=done.get("budgets", []),
        doubted=doubted,
    )


def _join(parts: Iterable[Mapping[str, list[Any]]]) -> dict[str, list[Any]]:
    """Join the answers for single accounts; all fields are lists."""
    # `run_round_apart` answers account by account, so a locked account does not affect the others.
    joined: dict[str, list[Any]] = {}
    for part in parts:
        for name, values in part.items():
            joined.setdefault(name, []).extend(values)
    return joined


def find_spendings(
    answer: RoundAnswer, items: Iterable[Item]
) -> dict[int, budget_records.Spending]:
    """Return what the budgets of the items have spent now."""
    periods = {
        item.hold.budget.id: item.hold.budget.allowance.period
        for item in items
        if item.hold.budget is not None
    }
    return {
        id_: budget_records.make_spending(periods[id_], first_day, spent_nano)
        for id_, first_day, spent_nano in answer.budgets
    }


def note_spent(item: Item, declined: Declined, report: SharedReport) -> None:
    """Report the sums behind a refusal, so that the next request is refused without asking."""
    hold = item.hold
    report.balances_nano[hold.account.id] = declined.balance_nano
    report.spent_nano[hold.key.line.id] = declined.spent_nano
    if hold.budget is not None and declined.budget is not None:
        first_day, spent_nano = declined.budget
        report.spendings[hold.budget.id] = budget_records.make_spending(
            hold.budget.allowance.period, first_day, spent_nano
        )


def make_refusal(item: Item, reason: list[Any]) -> GatewayError:
    """Make the error for a request that was declined."""
    hold = item.hold
    match reason:
        case [lack]:
            return NoFunds(cast("Lack", lack))
        case ["concurrency", owner, limit, _]:
            return key_records.refuse_concurrency(cast("key_records.Owner", owner), limit)
        case ["requests", owner, limit, wait_us]:
            return key_records.refuse_requests(
                cast("key_records.Owner", owner), limit, wait_us * _US_SECONDS
            )
        case [_, owner, limit, wait_us]:
            # The wait is the database's, whose buckets count what all nodes admit.
            expected = hold.admission.expected_tokens
            return key_records.refuse_tokens(
                cast("key_records.Owner", owner), limit, expected, wait_us * _US_SECONDS
            )
        case _:
            raise ValueError(reason)


def _describe_start(place: int, hold: Hold, now_ms: int, *, again: bool) -> dict[str, object]:
    admission = hold.admission
    return {
        "place": place,
        "id": admission.request_id,
        "account_id": hold.account.id,
        "key_id": hold.key.id,
        "budget_id": None if hold.budget is None else hold.budget.id,
        "model": admission.model,
        "provider": admission.provider,
        "stream": int(admission.stream),
        "hold_nano": admission.hold_nano,
        "full_nano": admission.full_nano,
        "full_below_nano": admission.full_below_nano,
        "started_ago_ms": now_ms - admission.started_ms,
        "price_id": admission.price.id,
        "key_rate": _list_rate(admission.key_rate),
        "account_rate": _list_rate(admission.account_rate),
        "expected_tokens": admission.expected_tokens,
        "again": again,
    }


def _describe_end(place: int, hold: Hold, end: Settlement, now_ms: int) -> dict[str, object]:
    return {
        "place": place,
        "id": hold.admission.request_id,
        "account_id": hold.account.id,
        "ended_ago_ms": now_ms - end.ended_ms,
        "price_id": end.price.id,
        **write_end(end),
    }


def _list_rate(rate: key_records.Limits | None) -> tuple[int, int, int]:
    if rate is None:
        return _NO_RATE
    return (rate.requests_per_minute, rate.tokens_per_minute, rate.concurrency)
