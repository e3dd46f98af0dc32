"""The sums of hours, days, budgets and costs are those of the requests, whatever was settled with what."""

from __future__ import annotations

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.admin import keys
from gateway.base.money import Tokens
from gateway.base.times import DAY_MS, HOUR_MS
from gateway.ledger.base import Account, Hold, Key, Line
from gateway.ledger.budget_records import Allowance, Budget, Period, Spending, find_span
from gateway.ledger.call_records import Outcome
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.opening import open_books
from gateway.ledger.records import MAX_INTEGER
from gateway.ledger.serving.queue import Item, Report
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.rows import SQL, SUMS
from gateway.ledger.sqlite.batch import KnownValues, commit_requests
from gateway.ledger.sqlite.books import SqliteBooks, run_audit
from gateway.ledger.sqlite.folds import BY_DAY, BY_HOUR, fold, see_all_charges
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving import interrupt_pending
from gateway.ledger.sqlite.statements import read_rows, run_rows, write_insert, write_update
from tests.ledger.contract.kit import NOW_MS, admission, settlement
from tests.ledger.kit import assert_sound, query
from tests.support.memory import MEMORY
from tests.support.rows import each_row

MIDNIGHT_MS = 20_000 * DAY_MS
MODELS = ("demo/echo", "vendor/large", "='x'")

Sums = dict[tuple[object, ...], tuple[int, ...]]


@dataclass(frozen=True)
class End:
    """How one request ends."""

    key: int
    model: int
    ended_ms: int
    cost_nano: int
    outcome: Outcome
    tokens: Tokens
    opened_before: bool


@cache
def make_two_accounts() -> tuple[bytes, tuple[tuple[int, str], ...]]:
    """A database of two accounts with two keys each; account and id of each key."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "gateway.db"
        found = []
        with open_books(path, create=True) as books:
            for name in ("a", "b"):
                account = books.accounts.create(name, credit_nano=10**12)
                found += [(account.id, keys.add_key(books, name).key.id) for _ in range(2)]
        return path.read_bytes(), tuple(found)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    yield from open_two_accounts(tmp_path)


def open_two_accounts(folder: Path) -> Iterator[sqlite3.Connection]:
    path = folder / "gateway.db"
    path.write_bytes(make_two_accounts()[0])
    with closing(connect(path)) as connection:
        yield connection
    assert_sound(path)


def make_item(end: End) -> Item:
    account_id, key_id = make_two_accounts()[1][end.key]
    account = Account(account_id, "", suspended=False, balance_nano=0)
    key = Key(key_id, account, KeyTerms(), Line(key_id))
    settled = replace(
        settlement(end.cost_nano, outcome=end.outcome, ended_ms=end.ended_ms), tokens=end.tokens
    )
    hold = Hold(replace(admission(), model=MODELS[end.model], started_ms=0), account, key, 1000)
    return Item(hold, insert=not end.opened_before, settlement=settled)


def play(connection: sqlite3.Connection, ends: list[End]) -> None:
    """One batch; what is pending already was written by an earlier one."""
    items = [make_item(end) for end in ends]
    opened = [Item(item.hold, insert=True, settlement=None) for item in items if not item.insert]
    commit_requests(connection, opened, 1, KnownValues(), Report())
    commit_requests(connection, items, 1, KnownValues(), Report())


def read_sums(connection: sqlite3.Connection, table: str, place: tuple[str, ...]) -> Sums:
    rows = connection.execute(f"SELECT {', '.join((*place, *SUMS))} FROM {table}")
    return {row[: len(place)]: row[len(place) :] for row in rows}


def sum_requests(connection: sqlite3.Connection, place: tuple[str, ...]) -> Sums:
    """By plain addition, request by request."""
    found: dict[tuple[object, ...], Counter[str]] = {}
    connection.row_factory = sqlite3.Row
    ended = "SELECT *, ended_ms / 3600000 AS hour, ended_ms / 86400000 AS day FROM requests"
    for row in connection.execute(f"{ended} WHERE state <> 'pending'").fetchall():
        counts = found.setdefault(tuple(row[name] for name in place), Counter())
        if row["state"] == "voided":
            counts["failed"] += 1
            continue
        counts["requests"] += 1
        counts.update({name: row[name] for name in SUMS[2:]})
    connection.row_factory = None
    return {place: tuple(counts[name] for name in SUMS) for place, counts in found.items()}


def sum_charges(connection: sqlite3.Connection) -> Sums:
    rows = connection.execute(
        "SELECT entries.account_id, model, key_id, -sum(amount_nano) FROM entries"
        " JOIN requests ON requests.id = request_id WHERE kind = 'charge' GROUP BY 1, 2, 3"
    )
    return {row[:3]: row[3:] for row in rows}


def leave_out_time(sums: Sums) -> Sums:
    """The charges by account, model and key."""
    charged: Counter[tuple[object, ...]] = Counter()
    for (account_id, _, model, key_id, *_), counts in sums.items():
        if counts[0]:
            charged[account_id, model, key_id] += counts[-1]
    return {place: (cost_nano,) for place, cost_nano in charged.items()}


def check(connection: sqlite3.Connection) -> None:
    fold(connection)
    daily = read_sums(connection, "daily", BY_DAY)
    hourly = read_sums(connection, "hourly", BY_HOUR)
    assert daily == sum_requests(connection, BY_DAY)
    assert hourly == sum_requests(connection, BY_HOUR)
    assert leave_out_time(daily) == leave_out_time(hourly) == sum_charges(connection)


TIMES = st.one_of(
    st.sampled_from([MIDNIGHT_MS - 1, MIDNIGHT_MS, MIDNIGHT_MS + HOUR_MS - 1, 0]),
    st.integers(MIDNIGHT_MS - 2 * DAY_MS, MIDNIGHT_MS + 2 * DAY_MS),
)
ENDS = st.builds(
    End,
    key=st.integers(0, 3),
    model=st.integers(0, len(MODELS) - 1),
    ended_ms=TIMES,
    cost_nano=st.sampled_from([0, 1, 999, 10**15]),
    outcome=st.sampled_from(["complete", "caller_left", "upstream_error"]),
    tokens=st.builds(Tokens, *[st.integers(0, 10**6)] * 4),
    opened_before=st.booleans(),
)


@settings(max_examples=30, deadline=None, print_blob=True)
@given(batches=st.lists(st.lists(ENDS, min_size=1, max_size=20), max_size=6))
def test_sums_are_those_of_requests_and_charges(batches: list[list[End]]) -> None:
    """By account, model, key, day and hour; posted and voided, new and pending, mixed as they come."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        for connection in open_two_accounts(Path(folder)):
            for ends in batches:
                play(connection, ends)
                check(connection)


def posted(ended_ms: int, cost_nano: int = 5, *, key: int = 0, model: int = 0) -> End:
    return End(key, model, ended_ms, cost_nano, "complete", Tokens(1, 2, 3, 4), opened_before=False)


def test_charges_are_folded_once(connection: sqlite3.Connection) -> None:
    """Whatever was folded before, and however often it is tried."""
    for ends in ([posted(MIDNIGHT_MS)], [posted(MIDNIGHT_MS, key=1), posted(0)]):
        play(connection, ends)
        assert connection.execute("SELECT count(*) FROM unfolded").fetchone() == (len(ends),)
        for _ in range(2):
            check(connection)
        assert connection.execute("SELECT count(*) FROM unfolded").fetchone() == (0,)
    sums = connection.execute("SELECT max(last_used_ms), sum(spent_nano) FROM keys").fetchone()
    assert sums == (MIDNIGHT_MS, 15)


SEEN: Final = [f"SELECT * FROM {one} ORDER BY 1, 2, 3, 4, 5" for one in ("hourly", "daily", "keys")]


def test_an_audit_and_an_export_see_charges_that_no_fold_has(
    connection: sqlite3.Connection,
) -> None:
    play(connection, [posted(MIDNIGHT_MS), posted(MIDNIGHT_MS, key=1)])
    fold(connection)
    item = make_item(posted(MIDNIGHT_MS))
    assert item.settlement is not None
    item.settlement = replace(item.settlement, provider_cost_nano=3)
    commit_requests(connection, [item, make_item(posted(0, key=3))], 1, KnownValues(), Report())
    assert run_audit(connection, full=True, now_ms=1).problems == ()
    connection.execute("BEGIN")
    see_all_charges(connection)
    seen = [connection.execute(sql).fetchall() for sql in SEEN]
    connection.execute("ROLLBACK")
    assert connection.execute("SELECT count(*) FROM unfolded").fetchone() == (2,)
    fold(connection)
    assert seen == [connection.execute(sql).fetchall() for sql in SEEN]


def test_a_snapshot_lists_every_charge_of_its_balance(
    connection: sqlite3.Connection, tmp_path: Path
) -> None:
    """Also those that come between a fold and the snapshot."""
    left = [make_item(posted(MIDNIGHT_MS)) for _ in range(3)]

    def charge(statement: str) -> None:
        if statement == "BEGIN" and left:
            commit_requests(connection, [left.pop()], 1, KnownValues(), Report())

    with open_books(tmp_path / "gateway.db") as books:
        assert isinstance(books, SqliteBooks)
        books.connection.set_trace_callback(charge)
        with books.snapshot():
            balance_nano = books.accounts.read("a").balance_nano
            assert balance_nano == 10**12 - 15
            assert sum(one.amount_nano for one in books.entries.read_latest("a", 9)) == balance_nano
        assert not left


@pytest.mark.parametrize(("pause_seconds", "tries"), [(60, 1), (0, 3)])
def test_after_a_fold_that_another_process_blocks_none_is_tried_for_a_while(
    pause_seconds: int, tries: int, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try takes the whole time-out: seconds, which a page must not spend on each read."""
    monkeypatch.setattr("gateway.ledger.sqlite.books.FOLD_PAUSE_SECONDS", pause_seconds)
    play(connection, [posted(MIDNIGHT_MS)])
    key_id, statements = make_two_accounts()[1][0][1], list[str]()
    with open_books(Path(connection.execute("PRAGMA database_list").fetchone()[2])) as books:
        assert isinstance(books, SqliteBooks)
        books.connection.execute("PRAGMA busy_timeout = 0")
        books.connection.set_trace_callback(statements.append)
        connection.execute("BEGIN IMMEDIATE")
        with books.snapshot():
            assert books.keys.read(key_id).spent_nano == 0
        assert books.keys.read(key_id).spent_nano == 0
        connection.execute("ROLLBACK")
        assert statements.count("BEGIN IMMEDIATE") == tries
        assert books.keys.read(key_id).spent_nano == (0 if pause_seconds else 5)


def test_a_fold_that_fails_adds_nothing(connection: sqlite3.Connection) -> None:
    play(connection, [posted(MIDNIGHT_MS)])
    connection.execute(
        "CREATE TRIGGER t BEFORE UPDATE ON folded BEGIN SELECT RAISE(ABORT, 'x'); END"
    )
    before = list(connection.iterdump())
    with pytest.raises(sqlite3.IntegrityError):
        fold(connection)
    assert list(connection.iterdump()) == before
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    connection.execute("DROP TRIGGER t")
    check(connection)


def test_no_line_spends_more_than_its_sum_can_keep(connection: sqlite3.Connection) -> None:
    """The charge is refused: a fold that failed for it would fail for all."""
    known = KnownValues()
    item = make_item(posted(MIDNIGHT_MS, MAX_INTEGER - 10**12))
    commit_requests(connection, [item], 1, known, Report())
    with pytest.raises(OverflowError):
        commit_requests(
            connection, [make_item(posted(MIDNIGHT_MS, 10**12 + 1))], 1, known, Report()
        )
    check(connection)


def test_interrupted_requests_fail_when_they_are_found(connection: sqlite3.Connection) -> None:
    """On the day of the next start; added to what failed on it before, and only once."""
    crashed = [replace(make_item(posted(0, key=key)), settlement=None) for key in (0, 0, 3)]
    failed = replace(posted(MIDNIGHT_MS, 0), outcome="upstream_error")
    play(connection, [failed, posted(MIDNIGHT_MS + HOUR_MS)])
    commit_requests(connection, crashed, 1, KnownValues(), Report())
    for found in (3, 0):
        assert interrupt_pending(connection, MIDNIGHT_MS + 5) == found
        check(connection)
    daily = read_sums(connection, "daily", BY_DAY)
    assert {place[1] for place in daily} == {20_000}
    assert sorted(sums[:2] for sums in daily.values()) == [(0, 1), (0, 2), (1, 1)]


def test_a_clock_set_back_counts_the_interrupted_when_they_began(
    connection: sqlite3.Connection,
) -> None:
    item = replace(make_item(posted(0)), settlement=None)
    item.hold.admission.started_ms = MIDNIGHT_MS
    commit_requests(connection, [item], 1, KnownValues(), Report())
    interrupt_pending(connection, 1)
    check(connection)
    assert next(iter(read_sums(connection, "daily", BY_DAY)))[1] == 20_000


INSERT = write_insert("INSERT INTO numbers (id, n)", 2)
UPDATE = write_update("numbers", "n", more="AND n < 3")
READ = "SELECT json_group_array(json_array(id, n)) FROM numbers WHERE id IN"


@pytest.fixture
def numbers() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as numbers:
        numbers.execute("CREATE TABLE numbers (id TEXT, n INTEGER)")
        yield numbers


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 512])
def test_each_row_is_written_and_read_once(numbers: sqlite3.Connection, count: int) -> None:
    rows = [(f"id{n}", n) for n in range(count)]
    assert run_rows(numbers, INSERT, rows).rowcount == count
    assert numbers.execute("SELECT * FROM numbers").fetchall() == rows
    assert read_rows(numbers, READ, [id_ for id_, _ in rows]) == [list(row) for row in rows]
    assert read_rows(numbers, READ, ["unknown"]) == []
    raised = [(id_, n + 10) for id_, n in rows]
    assert run_rows(numbers, UPDATE, raised).rowcount == min(count, 3)
    assert numbers.execute("SELECT * FROM numbers").fetchall() == raised[:3] + rows[3:]
    assert run_rows(numbers, UPDATE, raised[:1]).rowcount == 0


def test_a_connection_meets_few_statements(numbers: sqlite3.Connection) -> None:
    seen: set[str] = set()
    numbers.set_trace_callback(seen.add)
    for count in range(1, 65):
        read_rows(numbers, READ, [""] * count)
    shapes = {text.count("''") + text.count("-1") for text in seen}
    assert shapes == {1, 2, 4, 8, 16, 32, 64}


PERIODS: Final = get_args(Period)


class Ledger:
    """An account with a budget of each period and two keys for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.holds: list[Hold] = []
        account = Account(1, "a", suspended=False, balance_nano=10**12)
        with open_books(path, create=True) as books:
            books.accounts.create("a", credit_nano=10**12)
            for period in PERIODS:
                allowance = Allowance(10**9, period)
                made = books.keys.budgets.insert(1, period, allowance)
                spending = Spending(find_span(period, NOW_MS), 0)
                budget = Budget(made, 1, period, allowance, spending)
                for _ in range(2):
                    self.holds.append(self.make_hold(books, account, budget))
            self.plain = self.make_hold(books, account)

    @staticmethod
    def make_hold(books: Books, account: Account, budget: Budget | None = None) -> Hold:
        """Make a hold of a new key."""
        terms = KeyTerms(budget_id=budget.id if budget else None)
        key_id = keys.add_key(books, "a", terms).key.id
        key = Key(key_id, account, terms, Line(key_id))
        return Hold(admission(), account, key, 1000, budget=budget)

    def commit(self, ends: dict[int, tuple[int, int]], now_ms: int) -> Report:
        """Commit a charge and its end for each key's number, with one of a key without a budget."""
        items = [
            Item(self.renew(self.holds[number]), True, settlement(cost_nano, ended_ms=ended_ms))
            for number, (cost_nano, ended_ms) in ends.items()
        ]
        items.append(Item(self.renew(self.plain), True, settlement(9, ended_ms=now_ms)))
        with closing(connect(self.path)) as connection:
            report = Report()
            commit_requests(connection, items, now_ms, KnownValues(), report)
        return report

    @staticmethod
    def renew(hold: Hold) -> Hold:
        return Hold(admission(), hold.account, hold.key, 1000, budget=hold.budget)

    def read_spent(self) -> list[object]:
        rows = query(self.path, "SELECT spent_nano FROM budgets ORDER BY id")
        return [spent_nano for (spent_nano,) in rows]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "gateway.db")
    yield ledger
    assert_sound(ledger.path)


def test_a_batch_adds_to_several_budgets_at_once(ledger: Ledger) -> None:
    """Two keys of one budget in the same batch, budgets of each period, one without."""
    now = NOW_MS
    done = ledger.commit({number: (10**number, now) for number in range(6)}, now)
    assert ledger.read_spent() == [11, 1100, 110_000]
    assert [one.spent_nano for one in done.spendings.values()] == [11, 1100, 110_000]
    assert [one.span for one in done.spendings.values()] == [find_span(p, now) for p in PERIODS]
    ledger.commit({0: (5, now), 5: (7, now)}, now)
    assert ledger.read_spent() == [16, 1100, 110_007]


@each_row(("budgets", "statements"), [(0, 0), (1, 2), (3, 2)])
def test_budgets_take_two_statements_however_many_there_are(
    ledger: Ledger, budgets: int, statements: int
) -> None:
    told: list[str] = []
    with closing(connect(ledger.path)) as connection:
        connection.set_trace_callback(told.append)
        end = settlement(9, ended_ms=NOW_MS)
        holds = [ledger.plain, *ledger.holds[: 2 * budgets]]
        items = [Item(ledger.renew(hold), True, end) for hold in holds]
        commit_requests(connection, items, NOW_MS, KnownValues(), Report())
    assert sum("budgets" in statement for statement in told) == statements


def test_budgets_are_kept_and_summed_from_an_index(ledger: Ledger) -> None:
    """A period that begins must not read all requests of an account."""
    with closing(connect(ledger.path)) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="budgets are kept"):
            connection.execute("DELETE FROM budgets")
        plan = f"EXPLAIN QUERY PLAN {SQL['sum of a budget']}"
        (step, *_) = connection.execute(plan, (1, 0, 1)).fetchall()
    assert "COVERING INDEX requests_by_budget" in step[3]
