"""The sums of budgets in the database: batches, the statements they take, and the audit."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final, get_args

import pytest

from gateway.admin import accounts, keys
from gateway.ledger.base import Account, Hold, Key, Line
from gateway.ledger.key_records import Allowance, Budget, KeyTerms, Period, Spending, find_span
from gateway.ledger.serving.rounds import Item
from gateway.ledger.sql.rows import BUDGET_SUM
from gateway.ledger.sqlite.batch import Committed, commit_requests
from gateway.ledger.sqlite.schema import connect
from gateway.times import DAY_MS
from tests.ledger.kit import admission, query, settlement
from tests.support.rows import each_row

NOW_MS = 1_700_000_000_000
PERIODS: Final = get_args(Period)


def make_key(key_id: str, account: Account, terms: KeyTerms) -> Key:
    return Key(key_id, account, terms, Line(key_id))


class Ledger:
    """An account with a budget of each period and two keys for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.holds: list[Hold] = []
        account = Account(1, "a", suspended=False, balance_nano=10**12)
        with accounts.open_books(path, create=True) as books:
            accounts.add_account(books, "a", credit_nano=10**12)
            for period in PERIODS:
                allowance = Allowance(10**9, period)
                made = accounts.add_budget(books, "a", period, allowance)
                spending = Spending(find_span(period, NOW_MS), 0)
                budget = Budget(made.id, 1, period, allowance, spending)
                for _ in range(2):
                    terms = KeyTerms(budget_id=made.id)
                    key = make_key(keys.add_key(books, "a", terms).key.id, account, terms)
                    self.holds.append(Hold(admission(), account, key, 1000, budget=budget))
            plain = make_key(keys.add_key(books, "a").key.id, account, KeyTerms())
            self.plain = Hold(admission(), account, plain, 1000)

    def commit(self, ends: dict[int, tuple[int, int]], now_ms: int) -> Committed:
        """Commit a charge and its end for each key's number, with one of a key without a budget."""
        items = [
            Item(self.renew(self.holds[number]), True, settlement(cost_nano, ended_ms=ended_ms))
            for number, (cost_nano, ended_ms) in ends.items()
        ]
        items.append(Item(self.renew(self.plain), True, settlement(9, ended_ms=now_ms)))
        with closing(connect(self.path)) as connection:
            return commit_requests(connection, items, now_ms, set())

    @staticmethod
    def renew(hold: Hold) -> Hold:
        return Hold(admission(), hold.account, hold.key, 1000, budget=hold.budget)

    def read_spent(self) -> list[object]:
        return [
            spent for (spent,) in query(self.path, "SELECT spent_nano FROM budgets ORDER BY id")
        ]

    def audit(self) -> tuple[str, ...]:
        with accounts.open_books(self.path) as books:
            return books.audit().problems


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "gateway.db")


def test_a_batch_adds_to_several_budgets_at_once(ledger: Ledger) -> None:
    """Two keys of one budget in the same batch, budgets of each period, one without."""
    now = NOW_MS
    done = ledger.commit({number: (10**number, now) for number in range(6)}, now)
    assert ledger.read_spent() == [11, 1100, 110_000]
    assert [one.spent_nano for one in done.spendings.values()] == [11, 1100, 110_000]
    assert [one.span for one in done.spendings.values()] == [find_span(p, now) for p in PERIODS]
    ledger.commit({0: (5, now), 5: (7, now)}, now)
    assert ledger.read_spent() == [16, 1100, 110_007]
    assert ledger.audit() == ()


def test_each_budget_moves_on_by_itself(ledger: Ledger) -> None:
    """A week later another day and week have begun, but the month goes on."""
    later = NOW_MS + 7 * DAY_MS
    ledger.commit(dict.fromkeys(range(6), (10, NOW_MS)), NOW_MS)
    ledger.commit({0: (1, later), 2: (2, later - 3 * DAY_MS), 4: (3, NOW_MS)}, later)
    assert ledger.read_spent() == [1, 0, 23], "of the week before nothing counts"
    assert ledger.audit() == ()
    ledger.commit(dict.fromkeys(range(0, 6, 2), (100, later)), later)
    assert ledger.read_spent() == [101, 100, 123]
    assert ledger.audit() == ()


def test_without_budgets_a_batch_takes_no_statement_more(ledger: Ledger) -> None:
    told: list[str] = []
    with closing(connect(ledger.path)) as connection:
        connection.set_trace_callback(told.append)
        items = [Item(ledger.renew(ledger.plain), True, settlement(9, ended_ms=NOW_MS))]
        commit_requests(connection, items, NOW_MS, set())
    assert not any("budgets" in statement for statement in told)


@each_row("budgets_used", [1, 3])
def test_with_budgets_it_takes_two_more_however_many_there_are(
    ledger: Ledger, budgets_used: int
) -> None:
    told: list[str] = []
    with closing(connect(ledger.path)) as connection:
        connection.set_trace_callback(told.append)
        end = settlement(9, ended_ms=NOW_MS)
        items = [Item(ledger.renew(hold), True, end) for hold in ledger.holds[: 2 * budgets_used]]
        commit_requests(connection, items, NOW_MS, set())
    assert sum("budgets" in statement for statement in told) == 2


def test_the_audit_finds_a_wrong_sum(ledger: Ledger) -> None:
    ledger.commit({0: (10, NOW_MS)}, NOW_MS)
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("UPDATE budgets SET spent_nano = spent_nano + 1 WHERE id = 1")
    assert ledger.audit() == (
        "budget 1: spent is 11, the sum of its requests in its period 10 nano-units",
    )


def test_the_audit_finds_a_sum_of_the_wrong_period(ledger: Ledger) -> None:
    ledger.commit({0: (10, NOW_MS)}, NOW_MS)
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("UPDATE budgets SET period_day = period_day + 1 WHERE id = 1")
    assert "budget 1: spent is 10, the sum of its requests in its period 0" in ledger.audit()[0]


def test_the_audit_finds_a_request_charged_to_anothers_budget(ledger: Ledger) -> None:
    ledger.commit({0: (10, NOW_MS)}, NOW_MS)
    with accounts.open_books(ledger.path) as books:
        accounts.add_account(books, "b")
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("UPDATE budgets SET account_id = 2 WHERE id = 1")
    assert any("its budget 1 is another account's" in problem for problem in ledger.audit())


def test_budgets_are_kept(ledger: Ledger) -> None:
    with (
        closing(connect(ledger.path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="budgets are kept"),
    ):
        connection.execute("DELETE FROM budgets")


def test_a_sum_is_read_from_an_index(ledger: Ledger) -> None:
    """A period that begins must not read all requests of an account."""
    with closing(connect(ledger.path)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {BUDGET_SUM}", (1, 0, 1)).fetchall()
    assert "COVERING INDEX requests_by_budget" in plan[0][3]
