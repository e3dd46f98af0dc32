"""One random life, the promises that every life keeps, and a report of many."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from multidict import CIMultiDict

from gateway.api.admission import Completion, Prepared
from gateway.api.billing import open_bill
from gateway.api.completions import Relay
from gateway.api.lifecycle import ENDINGS, Case, Ending
from gateway.api.limits import Rates
from gateway.api.sink import JsonSink
from gateway.base.deadlines import Ticker
from gateway.base.errors import STOPPED, GatewayError, Overloaded
from gateway.base.money import Price
from gateway.base.prices import PriceList
from gateway.base.turns import LargeBodies
from gateway.base.usage import Expected, MissingUsages, UsageLimits
from gateway.config.records import Model
from gateway.dialects.wire.records import CompletionRequest, ReplyContext, Target
from gateway.ledger.serving import writer
from gateway.upstream.provider import ProviderState
from gateway.upstream.routing import Route
from tests.api.lives.ledger import WatchedLedger, make_ledger
from tests.api.lives.loop import Log, VirtualLoop
from tests.api.lives.scripted import USAGE, FakeForwarder, FakeSink
from tests.support.formats import CALLERS, EXCHANGES
from tests.support.records import make_bill_config, make_call, make_provider


@dataclass(frozen=True, slots=True)
class Life:
    """The course of one life."""

    seed: int
    case: Case | None
    log: Log

    def describe(self) -> str:
        return "\n".join([f"seed {self.seed}: {'; '.join(self.log.broken)}", *self.log.lines])


def live(seed: int) -> Life:
    """Play one life. Raises Hang."""
    # Each look for changes of others is a round, and nobody else changes anything.
    with (
        closing(VirtualLoop()) as loop,
        closing(sqlite3.connect(":memory:", isolation_level=None)) as database,
        mock.patch.object(writer, "POLL_SECONDS", 1.0),
    ):
        return loop.run_until_complete(_live(seed, database))


async def _live(seed: int, database: sqlite3.Connection) -> Life:
    dice, log = random.Random(seed), Log()
    stream = dice.random() < 0.7
    ledger = make_ledger(database, dice, log)
    ticker = Ticker()
    work, forwarders = _admit(ledger, ticker, dice, log, stream=stream)
    sink: Any = FakeSink(ledger, dice, log) if stream else JsonSink()
    relay = Relay(work, sink)
    ledger.is_caller_lost = lambda: sink.lost
    for forwarder in forwarders:
        forwarder.is_caller_gone = lambda: relay.life.caller_gone
    raised = await _run(relay, ticker, dice, log)
    if not stream and sink.body:
        log.check(ledger.committed == "complete", "the body leaves before the charge is committed")
    await asyncio.sleep(60)  # whatever comes late comes now
    case = relay.life.ended_as
    if stream:
        last, delivered = sink.last or raised, any(sink.sent)
    else:
        last, delivered = "reply" if sink.body else raised, False
    log.check(not ticker._timed, "a life is ticked behind its end")
    log.check(not (raised == "error" and sink.opened), "a head leaves beside an error status")
    judge(case, ledger, forwarders, log, Heard(last, delivered))
    if stream and not last and not sink.lost:
        log.check(False, "a caller that is there hears nothing")
    return Life(seed, case, log)


async def _run(relay: Relay, ticker: Ticker, dice: random.Random, log: Log) -> str:
    """Run the relay, perhaps into a shutdown; return what others tell the caller, or ""."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(relay.run())
    if dice.random() < 0.15:
        at = dice.choice((0.0, 0.1, 1.0, 3.0))
        error = Overloaded(STOPPED)
        loop.call_later(at, log.note, "shutdown")
        loop.call_later(at, ticker.stop_all, error)
        loop.call_later(at + dice.choice((0.0, 1.0)), task.cancel)
    try:
        await task
    except GatewayError:
        return "error"  # the front middleware's reply
    except asyncio.CancelledError:
        return "cut"  # the server closes the connection
    return ""


def _admit(
    ledger: WatchedLedger, ticker: Ticker, dice: random.Random, log: Log, *, stream: bool
) -> tuple[Completion, list[FakeForwarder]]:
    """Make a completion like `admission.admit`, with one to three routes."""
    dialect = CALLERS[dice.choice(("chat", "messages"))]
    exchange = EXCHANGES[dialect.name]["chat"]
    price = Price(input=10**6, output=10**6, cached_input=10**6, cache_write=10**6)
    model = Model("m", "o", (), 100, 100, None, 0, PriceList(price), frozenset())
    request = CompletionRequest({}, "m", stream, False, 1, None, 0, 0)
    expected = Expected(10, UsageLimits(10**6, 10**6, 10**6))
    context = ReplyContext(request, "req_1", expected)
    loop = asyncio.get_running_loop()
    rates = Rates()
    gateway = SimpleNamespace(
        ledger=ledger,
        attempt_listeners=[],
        ticker=ticker,
        large_bodies=LargeBodies(),
        missing_usages=MissingUsages(),
        config=make_bill_config(10, 10),
    )
    call = make_call(
        dialect.name, gateway=gateway, started=loop.time(), key=ledger.key, rates=rates
    )
    provider = make_provider(
        first_byte_timeout=4.0,
        idle_timeout=4.0,
        total_timeout=20.0,
        on_disconnect=dice.choice(("drain", "abort")),
    )
    forwarders = [FakeForwarder(provider, dice, log, stream) for _ in range(dice.randint(1, 3))]
    routes = [
        Route("ours", ProviderState(cast("Any", forwarder)), exchange, Target("theirs"))
        for forwarder in forwarders
    ]
    call.provider = "p"
    bill = open_bill(call, request, model, expected)
    first = Prepared(b"{}", context)
    work = Completion(call, request, model, routes, first, CIMultiDict(), bill)
    return work, forwarders


@dataclass(frozen=True, slots=True)
class Heard:
    """The part of the reply that the caller got."""

    last: str
    """`reply`, `error`, `cut` by a shutdown, or "" if it left."""
    delivered: bool
    """Whether the caller had received events before the last one."""


def judge(
    case: Case | None,
    ledger: WatchedLedger,
    forwarders: Sequence[FakeForwarder],
    log: Log,
    heard: Heard,
) -> None:
    log.check(len(ledger.holds) == 1, "there is one hold")
    if ledger.declined:
        log.check(case is None and not heard.delivered, "what is declined is not served")
        log.check(not any(one.tried for one in forwarders), "no provider hears of what is declined")
        is_free = ledger.store.hangs or all(hold.resolved for hold in ledger.holds)
        log.check(is_free, "what is declined holds nothing")
        return
    log.check(case is not None, "the life has no ending")
    log.check(len(ledger.settlements) == 1, "there is one settlement")
    still_held = sum(hold.amount_nano for hold in ledger.holds if not hold.resolved)
    is_released = ledger.key.account.held_nano == ledger.key.held_nano == still_held
    is_released &= ledger.store.hangs or not still_held
    log.check(is_released, "the hold is released once, by the commit")
    log.check(ledger.audit() == (), "the books add up")
    log.check(all(one.opened == one.closed for one in forwarders), "each answer is closed once")
    if case is not None and ledger.settlements:
        (settlement, *_) = ledger.settlements
        log.check((settlement.outcome == "caller_left") == case[1], "the outcome says who left")
        log.check(settlement.cost_nano >= 0, "no charge is negative")
        _judge_money(case, ledger, log, heard)


def _judge_money(case: Case, ledger: WatchedLedger, log: Log, heard: Heard) -> None:
    (settlement, *_) = ledger.settlements
    ending, gone, *_ = case
    if heard.last == "reply":
        log.check(settlement.outcome == "complete", "a whole reply is complete")
        costs_usage = settlement.cost_nano == USAGE["total_tokens"]
        log.check(costs_usage or settlement.estimated, "a whole reply costs its usage")
        log.check(ledger.charged_nano > 0, "a whole reply is charged")
    made = ending is Ending.UNDELIVERABLE
    ended_well = settlement.outcome in {"complete", "caller_left"}
    if not ended_well and settlement.status != 200 and not made:
        log.check(settlement.cost_nano == 0, "an error status costs nothing")
    if heard.delivered and ledger.committed is not None:
        log.check(ledger.charged_nano == settlement.cost_nano, "delivered is charged, if late")
    got_nothing = heard.last != "reply" and not heard.delivered
    # A caller that leaves pays, a reply that was made is charged, and a cut may hit a commit.
    if got_nothing and not gone and not made and not (heard.last == "cut" and ended_well):
        log.check(ledger.charged_nano == 0, "nothing delivered is nothing charged")


@dataclass(slots=True)
class Report:
    """The results of many lives."""

    lives: int = 0
    rows: Counter[int] = field(default_factory=Counter)
    """Counts by the row of `ENDINGS`."""
    broken: list[Life] = field(default_factory=list)

    @property
    def unreached(self) -> list[int]:
        return [row for row in range(len(ENDINGS)) if not self.rows[row]]

    def __str__(self) -> str:
        rows = (f"  row {row}: {self.rows[row]:7}  {_describe(row)}" for row in range(len(ENDINGS)))
        return "\n".join([f"{self.lives} lives", *rows])


def play_lives(first_seed: int, count: int) -> Report:
    report = Report()
    for seed in range(first_seed, first_seed + count):
        life = live(seed)
        report.lives += 1
        if life.case is not None:
            report.rows[_find_row(life.case)] += 1
        if life.log.broken:
            report.broken.append(life)
    return report


def _find_row(case: Case) -> int:
    return next(
        index
        for index, row in enumerate(ENDINGS)
        if all(value in allowed for value, allowed in zip(case, row[:4], strict=True))
    )


def _describe(row: int) -> str:
    endings, gone, phases, delivered, charge, last = ENDINGS[row]
    parts = (
        "/".join(sorted(one.name for one in endings)),
        "/".join(sorted(one.name for one in phases)),
    )
    return f"{parts[0]} gone={set(gone)} {parts[1]} delivered={set(delivered)} -> {charge.name}, {last.name}"
