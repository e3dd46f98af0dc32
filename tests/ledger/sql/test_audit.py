"""The proof of the books in both databases: each check names what it is for, and sound books have none."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.base.ids import find_first_id
from gateway.base.money import MILLION, Price
from gateway.base.prices import AppliedPrice
from gateway.base.times import DAY_MS, unix_ms
from gateway.ledger.budget_records import Allowance, Budget, Spending, find_span
from gateway.ledger.sql.audit import (
    Check,
    prove,
    read_checkpoint,
    read_last_entry,
    write_checkpoint,
)
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.rows import end_period
from gateway.ledger.sqlite.books import SqliteBooks
from tests.ledger.contract.kit import NOW_MS, create_key, key_id_of, settlement, void
from tests.ledger.kit import read_spoiled
from tests.ledger.sql.places import BooksPlace, find_kinds, make_cases
from tests.ledger.sql.requests import make_item
from tests.support.extras import find_modules

MAX_PROBLEMS = 20

KEPT_FROM_MS = (NOW_MS // DAY_MS + 2) * DAY_MS
LATER_MS = KEPT_FROM_MS + DAY_MS
"""When a request was made that is kept."""
DEARER = AppliedPrice(Price(MILLION, 0, 0, 0))
SEARCHES = AppliedPrice(Price(0, 0, 0, 0, request=70, web_search=1000))


@dataclass
class Ledger:
    """A ledger that a test spoils, and that is as it was behind it."""

    place: BooksPlace
    books: Books

    def find_problems(self, *, full: bool = True, kept_from_ms: int = 0) -> tuple[str, ...]:
        report = prove(self.books.connection, 0, full=full, kept_from_ms=kept_from_ms)
        assert report.ok is not bool(report.problems)
        return report.problems

    def run(self, *statements: str) -> None:
        for sql in statements:
            self.books.connection.execute(sql)

    @contextmanager
    def spoiling(self) -> Iterator[None]:
        self.place.begin_spoiling(self.books.connection)
        try:
            yield
        finally:
            self.run("ROLLBACK")


@pytest.fixture(scope="module", params=make_cases())
def history(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ledger]:
    kind = find_kinds()[request.param]
    with (
        kind.lend(request, tmp_path_factory.mktemp("history")) as place,
        place.open(unix_ms, create=True) as books,
    ):
        make_history(place, books)
        yield Ledger(place, books)


def make_history(place: BooksPlace, books: Books) -> None:
    """Charge 70 three times, with bills of 60, the last of them later; void one; spend a budget; pay by card."""
    books.accounts.create("a", credit_nano=100_000)
    key, other = (key_id_of(create_key(books, "a")) for _ in range(2))
    now_ms = unix_ms()
    late = settlement(70, ended_ms=LATER_MS + 1, provider_cost_nano=60, reported_cost_nano=61)
    items = [
        make_item(1, key, NOW_MS, settlement(70)),
        make_item(1, key, NOW_MS, settlement(70, provider_cost_nano=60)),
        make_item(1, key, LATER_MS, late),
        make_item(1, key, NOW_MS, void()),
        make_item(1, other, now_ms, settlement(7, ended_ms=now_ms)),
    ]
    budget_id = books.keys.budgets.insert(1, "b", Allowance(10**6, "month"))
    span = find_span("month", now_ms)
    items[-1].hold.budget = Budget(budget_id, 1, "b", Allowance(10**6, "month"), Spending(span, 0))
    place.add_requests(books.connection, items, now_ms)
    for price in (DEARER, SEARCHES):
        books.connection.execute("INSERT INTO prices VALUES (?, ?)", (price.id, price.text))
    books.accounts.create("idle")
    for module in find_modules("rows").values():
        module.add_rows(books)


@pytest.fixture
def ledger(history: Ledger) -> Iterator[Ledger]:
    with history.spoiling():
        yield history


AT_THE_START = read_spoiled("at the start")
IN_FULL = read_spoiled(
    "in full", DEARER_TEXT=DEARER.text, DEARER_ID=DEARER.id, SEARCHES_ID=SEARCHES.id
)
BESIDE = read_spoiled(
    "beside what is gone", KEPT_FROM_MS=KEPT_FROM_MS, KEPT_ID=find_first_id(LATER_MS)
)
GONE = f"DELETE FROM requests WHERE started_ms < {KEPT_FROM_MS}"


def test_sound_books_have_no_problem(ledger: Ledger) -> None:
    for kept_from_ms in (0, KEPT_FROM_MS):
        assert ledger.find_problems(kept_from_ms=kept_from_ms) == ()


def test_requests_of_months_that_are_not_kept_may_be_gone(ledger: Ledger) -> None:
    """Their charges and sums stay, and are proven: so does the budget of a period that is over."""
    ledger.run(GONE, "UPDATE budgets SET period_day = 0, spent_nano = 5")
    assert any("is not posted" in text for text in ledger.find_problems())
    assert ledger.find_problems(kept_from_ms=KEPT_FROM_MS) == ()


@pytest.mark.parametrize(
    ("how", "sql", "problem"),
    [
        *(({}, *one) for one in AT_THE_START + IN_FULL),
        *(({"full": False}, *one) for one in AT_THE_START),
        *(({"kept_from_ms": KEPT_FROM_MS}, *one) for one in BESIDE),
    ],
)
def test_a_proof_names_what_is_wrong(
    ledger: Ledger, how: dict[str, Any], sql: str, problem: str
) -> None:
    """In full, at the start, or of what is kept beside what is gone."""
    ledger.run(*[GONE] * ("kept_from_ms" in how), sql)
    problems = ledger.find_problems(**how)
    assert any(problem in text for text in problems), problems


SINCE_AND_KEPT = Check("SELECT :since, :kept_from", "proven to {0}, kept from {1}")
NUMBERS = """
    WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000)
    SELECT n FROM numbers
"""


@pytest.fixture(autouse=True)
def functions(connection: sqlite3.Connection) -> None:
    connection.create_function("end_period", 2, end_period, deterministic=True)


def test_a_part_is_proven_from_the_entry_on(connection: sqlite3.Connection, tmp_path: Path) -> None:
    with SqliteBooks(tmp_path / "gateway.db") as books:
        books.entries.credit("a", 5)
    assert read_last_entry(connection) == 2
    for since, entries in ((0, 2), (1, 1), (2, 0)):
        report = prove(connection, since, full=False)
        assert (report.ok, report.accounts, report.entries) == (True, 1, entries)
    connection.execute("UPDATE accounts SET balance_nano = 6")
    assert prove(connection, 2, full=False).problems == (
        "account a: balance is 6, the sum of its entries 1005 nano-units",
    )


def test_a_database_adds_its_own_checks_to_the_full_proof(connection: sqlite3.Connection) -> None:
    full = prove(connection, 3, full=True, kept_from_ms=4, more_checks=[SINCE_AND_KEPT])
    assert (full.ok, full.problems) == (False, ("proven to 3, kept from 4",))
    assert prove(connection, 0, full=False, more_checks=[SINCE_AND_KEPT]).ok


def test_a_check_shows_its_rows_and_not_all_of_them(connection: sqlite3.Connection) -> None:
    check = Check(NUMBERS, "number {0}")
    problems = prove(connection, 0, full=True, more_checks=[check]).problems
    assert problems == tuple(f"number {n}" for n in range(1, MAX_PROBLEMS + 1))


def test_a_checkpoint_never_goes_back(connection: sqlite3.Connection) -> None:
    assert read_checkpoint(connection) == 0
    for entry_id, last in ((1, 1), (0, 1), (1, 1)):
        write_checkpoint(connection, entry_id, 7)
        assert read_checkpoint(connection) == last
    assert connection.execute("SELECT count(*) FROM checkpoints").fetchone() == (1,)
