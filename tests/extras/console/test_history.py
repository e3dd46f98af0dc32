"""Entries and requests of the books in pages: each row appears once and in order while others are added.

Pages stay quick with a long history. `python -m tests.long million` has a million requests.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.admin import keys
from gateway.base.times import DAY_MS, HOUR_MS
from gateway.extras.reports import calls as call_book
from gateway.extras.reports.calls import CallBook
from gateway.extras.reports.entries import EntryFilter, EntryRuns
from gateway.extras.reports.records import CallFilter, CallView
from gateway.ledger.call_records import Outcome
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import EntryKind, EntryView
from gateway.ledger.sql.books import Books
from gateway.ledger.sqlite.books import SqliteBooks
from tests.extras.console.calls import NOON_MS, TODAY, Past, add_calls, end_call
from tests.extras.reports.pages import count_steps
from tests.ledger.kit import assert_sound
from tests.long.million import Filled, History, fill
from tests.support.rows import told_together

MODELS = ("demo/echo", "vendor/large", "vendor/small")
OUTCOMES: tuple[Outcome, ...] = ("complete", "complete", "rejected", "upstream_error")


@dataclass(frozen=True)
class Place:
    path: Path
    books: SqliteBooks
    own: int
    """The id of the account under test."""
    other: int
    keys: tuple[str, ...]
    other_key: str


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    path = tmp_path / "gateway.db"
    with SqliteBooks(path, create=True) as books:
        own = books.accounts.create("own", credit_nano=10**12)
        other = books.accounts.create("other", credit_nano=10**12)
        made = tuple(keys.add_key(books, "own", KeyTerms(name=f"key {n}")).key.id for n in range(3))
        other_key = keys.add_key(books, "other").key.id
        yield Place(path, books, own.id, other.id, made, other_key)
    assert_sound(path)


def nothing() -> None:
    """Nobody adds anything."""


def walk_entries(
    books: Books,
    account_id: int,
    kind: EntryKind | None,
    limit: int,
    between: Callable[[], object] = nothing,
) -> list[EntryView]:
    """Read all pages one after the other; between them others may add something."""
    found: list[EntryView] = []
    below_id: int | None = None
    while True:
        run = EntryRuns(books).read_run(EntryFilter(account_id, kind), below_id, limit)
        assert len(run.entries) <= limit
        assert not found or not run.entries or run.entries[0].id < found[-1].id
        found += run.entries
        if run.next_id is None:
            return found
        below_id = run.next_id
        between()


def walk_calls(
    books: Books, chosen: CallFilter, limit: int, between: Callable[[], object] = nothing
) -> list[CallView]:
    found: list[CallView] = []
    while True:
        page = CallBook(books).read_page(chosen, found[-1].request_id if found else None, limit)
        assert len(page) <= limit
        assert not found or not page or page[0].request_id < found[-1].request_id
        found += page
        if len(page) < limit:
            return found
        between()


def move(books: Books) -> None:
    """Add a credit and a correction."""
    books.entries.credit("own", 5, note="a credit")
    books.entries.correct("own", -3, note="a correction")


def scatter(place: Place, number: int, seed: int) -> list[Past]:
    """Spread requests over four days: some pending, voided or free, some ending on a later day."""
    randomness = random.Random(seed)
    calls = []
    for _ in range(number):
        started_ms = NOON_MS - randomness.randrange(4 * DAY_MS)
        length_ms = randomness.choice((0, 900, 20_000, HOUR_MS, 5 * HOUR_MS, 60 * HOUR_MS))
        outcome: Outcome = randomness.choice(OUTCOMES)
        past = Past(
            key_id=randomness.choice(place.keys),
            started_ms=started_ms,
            ended_ms=started_ms + length_ms,
            model=randomness.choice(MODELS),
            cost_nano=randomness.choice((0, 77)),
            outcome=outcome,
            provider=randomness.choice(("demo", "demo", "fallback")),
            status=200 if outcome == "complete" else randomness.choice((200, 400, 502)),
        )
        calls.append(replace(past, ended_ms=None) if randomness.random() < 0.05 else past)
    return calls


def test_every_entry_is_on_one_page_latest_first(place: Place) -> None:
    for _ in range(3):
        add_calls(place.path, place.own, [Past(place.keys[0], NOON_MS, NOON_MS + 5)] * 3)
        add_calls(place.path, place.other, [Past(place.other_key, NOON_MS, NOON_MS + 5)])
        move(place.books)
    numbers: dict[EntryKind, int] = {"credit": 4, "correction": 3, "charge": 9}
    for limit in (1, 2, 3, 7, 100):
        everything = walk_entries(place.books, place.own, None, limit)
        ids = {entry.id for entry in everything}
        assert [entry.id for entry in everything] == sorted(ids, reverse=True)
        assert len(everything) == 1 + 3 * 5 == EntryRuns(place.books).count(place.own)
        assert {entry.account for entry in everything} == {"own"}
        for kind, number in numbers.items():
            of_kind = walk_entries(place.books, place.own, kind, limit)
            assert of_kind == [entry for entry in everything if entry.kind == kind]
            assert len(of_kind) == number == EntryRuns(place.books).count(place.own, kind)
    before = walk_entries(place.books, place.own, None, 100)
    seen = walk_entries(place.books, place.own, None, 2, lambda: move(place.books))
    assert seen == before, "what is added between pages moves nothing"


FILTERS: dict[str, dict[str, Any]] = {
    "all": {},
    "key": {"key_id": 0},
    "model": {"model": MODELS[1]},
    "key and model": {"key_id": 1, "model": MODELS[2]},
    "a day": {"since_ms": (TODAY - 1) * DAY_MS, "until_ms": TODAY * DAY_MS},
    "from": {"since_ms": (TODAY - 2) * DAY_MS},
    "to": {"until_ms": (TODAY - 1) * DAY_MS},
    "key and days": {"key_id": 2, "since_ms": (TODAY - 3) * DAY_MS, "until_ms": TODAY * DAY_MS},
    "everything": {"key_id": 0, "model": MODELS[0], "since_ms": (TODAY - 1) * DAY_MS, "until_ms": (TODAY + 1) * DAY_MS},
    "provider": {"provider": "fallback"},
    "provider and model": {"provider": "fallback", "model": MODELS[0]},
    "complete": {"outcome": "complete"},
    "failed": {"outcome": "failed"},
    "one outcome": {"outcome": "rejected"},
    "pending": {"outcome": "pending"},
    "status": {"status": 502},
    "status 200": {"status": 200},
    "failed with status 200": {"outcome": "failed", "status": 200},
    "hours": {"since_ms": NOON_MS - 9 * HOUR_MS - 5, "until_ms": NOON_MS - HOUR_MS},
    "key and hours": {"key_id": 1, "since_ms": NOON_MS - 30 * HOUR_MS - 5},
    "all but time": {"key_id": 0, "model": MODELS[0], "provider": "demo", "outcome": "failed", "status": 502},
    "no day": {"since_ms": TODAY * DAY_MS, "until_ms": TODAY * DAY_MS},
    "before all days": {"until_ms": -719_161 * DAY_MS},
    "after all days": {"since_ms": 2_932_896 * DAY_MS},
}  # fmt: skip


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.daily)])
def test_every_chosen_call_is_on_one_page_and_counted(place: Place, seed: int) -> None:
    """Requests that took days are included: sums go by their end, lists by their start."""
    made = scatter(place, 200, seed)
    others = [
        Past(place.other_key, NOON_MS, NOON_MS + 5),
        *(Past(place.other_key, NOON_MS - n, NOON_MS, MODELS[0]) for n in range(9)),
    ]
    calls = dict(zip(add_calls(place.path, place.own, made), made, strict=True))
    everybodys = calls | dict(zip(add_calls(place.path, place.other, others), others, strict=True))
    with told_together() as row:
        for name, filter_ in FILTERS.items():
            values = dict(filter_)
            if "key_id" in values:
                values["key_id"] = place.keys[values["key_id"]]
            for account, known in ((place.own, calls), (None, everybodys)):
                with row(f"{name}, account {account}"):
                    chosen = CallFilter(account, **values)
                    wanted = [id_ for id_, past in known.items() if is_chosen(chosen, past)]
                    assert wanted or name in {"no day", "before all days", "after all days"}
                    for limit in (17, 1000):
                        found = walk_calls(place.books, chosen, limit)
                        assert [call.request_id for call in found] == sorted(wanted, reverse=True)
                    assert CallBook(place.books).count(chosen) == len(wanted)


def test_many_calls_are_counted_up_to_a_limit(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums tell how many calls an account has of a key, a model or some days, and nothing else."""
    monkeypatch.setattr(call_book, "MAX_COUNTED", 3)
    add_calls(place.path, place.own, [Past(place.keys[0], NOON_MS, NOON_MS + 5)] * 4)
    for chosen, expected in (
        (CallFilter(), None),
        (CallFilter(place.own), 4),
        (CallFilter(model="demo/echo"), None),
        (CallFilter(place.own, model="demo/echo"), 4),
        (CallFilter(key_id=place.keys[0], until_ms=(TODAY + 1) * DAY_MS), 4),
        (CallFilter(outcome="complete"), None),
        (CallFilter(provider="demo"), None),
        (CallFilter(until_ms=NOON_MS + 1), None),
        (CallFilter(until_ms=NOON_MS), 0),
        (CallFilter(key_id="none"), 0),
    ):
        assert CallBook(place.books).count(chosen) == expected


def is_chosen(chosen: CallFilter, past: Past) -> bool:
    """Repeat what a filter means."""
    at_ms = past.started_ms
    outcome, status = ("pending", None) if past.ended_ms is None else (past.outcome, past.status)
    has_failed = outcome not in {"pending", "complete"}
    return (
        chosen.key_id in {None, past.key_id}
        and chosen.model in {None, past.model}
        and chosen.provider in {None, past.provider}
        and chosen.outcome in {None, outcome, "failed" if has_failed else None}
        and chosen.status in {None, status}
        and (chosen.since_ms is None or at_ms >= chosen.since_ms)
        and (chosen.until_ms is None or at_ms < chosen.until_ms)
    )


@pytest.mark.parametrize("with_key", [False, True])
def test_calls_that_come_in_between_pages_move_nothing(place: Place, *, with_key: bool) -> None:
    key = place.keys[0]
    made = [Past(key, NOON_MS - n * HOUR_MS, NOON_MS) for n in range(9)]
    ids = add_calls(place.path, place.own, made)
    chosen = CallFilter(place.own, key_id=key if with_key else None)
    later = [Past(key, NOON_MS + 1, NOON_MS + 5)]
    seen = walk_calls(place.books, chosen, 1, lambda: add_calls(place.path, place.own, later))
    assert [call.request_id for call in seen] == ids


def test_a_call_that_ends_between_pages_is_seen_once(place: Place) -> None:
    """A request moves from the pending ones to the sums of a day."""
    key = place.keys[0]
    old = Past(key, NOON_MS - 2 * DAY_MS, None)
    ids = add_calls(place.path, place.own, [Past(key, NOON_MS, NOON_MS + 5), old])
    chosen = CallFilter(place.own, key_id=key)
    first = CallBook(place.books).read_page(chosen, None, 1)
    assert CallBook(place.books).count(chosen) == 2
    end_call(place.path, place.own, ids[1], replace(old, ended_ms=NOON_MS + 9))
    second = CallBook(place.books).read_page(chosen, first[0].request_id, 1)
    assert [call.request_id for call in (*first, *second)] == ids
    assert second[0].state == "posted"
    assert CallBook(place.books).count(chosen) == 2
    assert CallBook(place.books).read_page(chosen, ids[1], 1) == []


def test_a_clock_that_was_set_back_hides_no_call(place: Place) -> None:
    made = [Past(place.keys[0], NOON_MS, NOON_MS - 2 * DAY_MS)]
    ids = add_calls(place.path, place.own, made)
    for chosen in (
        CallFilter(place.own, key_id=place.keys[0]),
        CallFilter(place.own, since_ms=TODAY * DAY_MS, until_ms=(TODAY + 1) * DAY_MS),
    ):
        (call,) = CallBook(place.books).read_page(chosen, None, 10)
        assert (call.request_id, call.total_ms) == (ids[0], 0)
        assert CallBook(place.books).count(chosen) == 1


# ---- a long history ------------------------------------------------------------------------------

REQUESTS: Final = 200_000
MAX_STEPS: Final = 600
"""Limit in thousands of SQLite's steps; a look at every request takes more."""
MAX_STEPS_OF_HOURS: Final = 2000
"""Limit for a page made from 50,000 sums."""
HOURS: Final = "usage, 31 days by hour"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    path = tmp_path_factory.mktemp("million") / "gateway.db"
    yield fill(path, History(requests=REQUESTS))
    path.unlink()  # pytest keeps folders, and this one is large


@pytest.mark.slow
def test_every_page_is_read_in_few_steps(filled: Filled) -> None:
    with filled.open_books() as books:
        counts = count_steps(books, filled)
    assert counts.pop(HOURS) <= MAX_STEPS_OF_HOURS
    assert {page: count for page, count in counts.items() if count > MAX_STEPS} == {}
