"""A provider turns slow at noon for half of the accounts: who is slower is found, and nobody else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from gateway.admin import keys
from gateway.base.times import DAY_MS, HOUR_MS
from gateway.config.records import Config
from gateway.extras.console.errors import ConsoleError
from gateway.extras.console.fields import Query
from gateway.extras.observations.book import KEPT_MS
from gateway.extras.observations.observer import Observations
from gateway.extras.observations.records import Latency
from gateway.extras.reports.records import CallFilter
from gateway.extras.trends import rows
from gateway.extras.trends.book import TrendBook
from gateway.extras.trends.console import read_span
from gateway.extras.trends.records import Trends, find_slower
from gateway.ledger.call_records import Outcome
from gateway.ledger.records import Refused
from gateway.ledger.sqlite.batch import write_aside
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.schema import connect
from tests.extras.console.calls import NOON_MS, Past, add_calls
from tests.extras.observations.kit import writing
from tests.support.settings import load

PROVIDERS: Final = {"quick": "steady", "large": "sluggish", "small": "sluggish"}
"""The provider of each model; one of them turns slow."""
CALLS: Final = 3000
END_MS: Final = NOON_MS + 4 * HOUR_MS
SLOW: Final = {"account": ["a0", "a2"], "provider": ["sluggish"], "model": ["large", "small"]}


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteBooks]:
    path = tmp_path_factory.mktemp("trends") / "gateway.db"
    chance, observed = random.Random(43), Observations()
    with SqliteBooks(path, create=True, clock=lambda: END_MS) as books:
        for number in range(4):
            account = books.accounts.create(f"a{number}", credit_nano=10**12)
            key_id = keys.add_key(books, account.name).key.id
            calls = [make_call(chance, key_id, is_half=number % 2 == 0) for _ in range(CALLS // 4)]
            add_calls(path, account.id, sorted(calls, key=lambda call: call.ended_ms or 0))
            for call in calls:
                if call.outcome == "complete" and call.ended_ms is not None:
                    times = (call.first_byte_ms, call.ended_ms - call.started_ms)
                    place = (
                        call.started_ms // HOUR_MS,
                        account.id,
                        call.provider,
                        f"up-{call.model}",
                    )
                    observed.latencies.setdefault(place, []).extend(times)
        with closing(connect(path)) as connection:
            write_aside(connection, writing(observed, END_MS))
        yield books


def make_call(chance: random.Random, key_id: str, *, is_half: bool) -> Past:
    started_ms = END_MS - chance.randrange(12 * HOUR_MS)
    model = chance.choice([*PROVIDERS])
    is_slow = is_half and started_ms >= NOON_MS and PROVIDERS[model] == "sluggish"
    total_ms = chance.randrange(1000, 2000) * (5 if is_slow else 1)
    outcome: Outcome = "complete" if chance.random() < 0.95 else "upstream_error"
    return Past(
        key_id,
        started_ms,
        started_ms + total_ms,
        model,
        outcome=outcome,
        provider=PROVIDERS[model],
        status=200 if outcome == "complete" else 502,
        first_byte_ms=total_ms // 4,
    )


def make_config(folder: Path) -> Config:
    providers = "".join(f'[providers.{name}]\ndialect = "demo"\n' for name in {*PROVIDERS.values()})
    models = "".join(
        f'[models.{name}]\nroutes = ["{provider}/up-{name}"]\nprice = "free"\n'
        for name, provider in PROVIDERS.items()
    )
    return load(folder, providers + models)


def find_names(trends: Trends) -> dict[str, list[str]]:
    return {name: sorted(g.name for g in one.groups) for name, one in trends.slower.items()}


@pytest.mark.parametrize("limit", [rows.MAX_CALLS, 100], ids=["rows", "sums"])
def test_who_became_slower_is_found(
    books: SqliteBooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """From the rows of calls and, of too many, from the sums by hour; the counts are the same."""
    monkeypatch.setattr(rows, "MAX_CALLS", limit)
    book, config = TrendBook(books), make_config(tmp_path)

    def read(chosen: CallFilter, hours: int = 4) -> Trends:
        return book.read(chosen, END_MS - hours * HOUR_MS, END_MS, config)

    trends = read(CallFilter())
    assert trends.is_exact is (limit > 100)
    assert find_names(trends) == SLOW
    assert {one.compared for one in trends.slower.values()} == {4, 2, 3}
    assert {kind: each["model"].total() for kind, each in trends.failing.items()} == (
        trends.total.failures
    )
    failing = trends.failing["upstream_error 502"]
    assert failing["account"].keys() == {"a0", "a1", "a2", "a3"}
    assert failing["provider"]["steady"] == failing["model"]["quick"] > 0
    one = read(CallFilter(model="large", provider="sluggish"))
    assert one.failing["upstream_error 502"]["provider"] == {"sluggish": one.total.failed}
    assert find_names(one)["model"] == ["large"]
    assert find_names(read(CallFilter(provider="steady")))["model"] == []
    assert 0 < one.total.calls < trends.total.calls < read(CallFilter(), 12).total.calls == CALLS
    assert sum(step.calls for step in trends.steps) == trends.total.calls
    (slow, steady) = (read(CallFilter(books.accounts.find_id(name))) for name in ("a0", "a1"))
    assert (slow.total.latency.total_p95_ms or 0) > 3 * (steady.total.latency.total_p95_ms or 0)
    assert (before := read(CallFilter(), 12).before)
    assert before.calls == 0
    monkeypatch.setattr(books, "clock", lambda: END_MS - 6 * HOUR_MS + KEPT_MS)
    late = read(CallFilter())
    assert late.total == trends.total
    assert (late == trends) if limit > 100 else (late.before, late.slower) == (None, {})


def test_first_bytes_and_totals_of_many_tell_who_is_slower() -> None:
    """Totals depend on the replies' length, so a few long ones are nothing: both percentiles of many must grow."""
    before = Latency(100, 200, 1000, 5000, 9000)
    measures = {
        "late": replace(before, calls=5, first_byte_p95_ms=1300),
        "late too seldom": replace(before, calls=4, first_byte_p95_ms=9000),
        "near": replace(before, first_byte_p95_ms=1239),
        "crawling": replace(before, total_p50_ms=6000, total_p95_ms=10_900),
        "crawling seldom": replace(before, calls=99, total_p50_ms=9000, total_p95_ms=20_000),
        "some long": replace(before, total_p95_ms=90_000),
        "quick and long": replace(before, first_byte_p50_ms=10, total_p50_ms=9000),
    }
    slower = find_slower(measures, dict.fromkeys(measures, before))
    told = [(one.name, one.measure, one.growth_percent) for one in slower.groups]
    assert told == [("late", "first_byte", 25), ("crawling", "total", 20)]
    assert slower.compared == len(measures) - 1


def test_what_neither_rows_nor_sums_tell_is_refused(
    books: SqliteBooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums know accounts, and providers' models, but not both together; and they are kept for a month."""
    monkeypatch.setattr(rows, "MAX_CALLS", 100)
    book, config = TrendBook(books), make_config(tmp_path)
    account = books.accounts.find_id("a0")
    with pytest.raises(Refused, match="more than 100 calls"):
        book.read(CallFilter(account, provider="sluggish"), NOON_MS, END_MS, config)
    books.clock = lambda: END_MS + 40 * DAY_MS
    with pytest.raises(Refused, match="more than 100 calls"):
        book.read(CallFilter(account), NOON_MS, END_MS, config)
    assert book.read(CallFilter(model="none"), NOON_MS, END_MS, config).total.calls == 0
    books.clock = lambda: END_MS


def test_a_span_ends_a_day_ahead_at_most() -> None:
    """`to` as a day is the end of that day: today's is always within it."""
    day = {"from": "2024-10-04", "to": "2024-10-04"}  # NOON_MS is on it
    assert read_span(Query(day), NOON_MS)[1] == NOON_MS + DAY_MS // 2
    ahead = {"from": "2024-10-04", "to": "2024-10-05T12:00:00Z"}
    assert read_span(Query(ahead), NOON_MS)[1] == NOON_MS + DAY_MS
    with pytest.raises(ConsoleError, match="at most a day ahead"):
        read_span(Query({**ahead, "to": "2024-10-05T12:00:01Z"}), NOON_MS)
