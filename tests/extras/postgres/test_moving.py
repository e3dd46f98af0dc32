"""A ledger moves from a file into PostgreSQL and back, whole, or nothing is kept."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

from gateway.admin import keys
from gateway.base.money import NANO
from gateway.base.times import DAY_MS
from gateway.extras.moves.ledgers import (
    CHARGE_COLUMN,
    BadRecord,
    MoveRecord,
    make_ledger,
    read_records,
)
from gateway.extras.observations.records import UpstreamFailure
from gateway.extras.observations.serving import observe
from gateway.extras.postgres.moving import OF_NODES, TABLES
from gateway.extras.postgres.nodes import register
from gateway.extras.postgres.schema import SHAPE, open_session
from gateway.ledger.budget_records import Allowance
from gateway.ledger.opening import open_books, open_ledger
from gateway.ledger.records import DatabaseUrl, LedgerError
from gateway.ledger.sql.books import Books
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.folds import FILES
from gateway.ledger.sqlite.serving import interrupt_pending
from gateway.ledger.versions import VERSION
from tests.extras.postgres.cluster import Cluster
from tests.ledger.contract.kit import (
    NOW_MS,
    admission,
    charge,
    create_key,
    find_key,
    key_id_of,
    settlement,
    void,
)
from tests.ledger.kit import add_rows, read_spoiled
from tests.ledger.sql.requests import add_requests, make_item

LATER_MS = NOW_MS + 70 * DAY_MS
"""Two months later, in the next year."""
Rows = list[MoveRecord]


async def make_history(path: Path) -> None:
    """Make a ledger with rows in every table, of three months; two requests are still pending."""
    with SqliteBooks(path, create=True, clock=lambda: NOW_MS) as books:
        books.accounts.create("a", credit_nano=1000 * NANO)
        books.accounts.create("b'; --", credit_nano=5, operator=True)
        rotated, own = keys.add_key(books, "a"), create_key(books, "a")
        team = books.keys.budgets.insert(1, "team", Allowance(100 * NANO, "month"))
        books.keys.edit(key_id_of(own), {"budget_id": team})
        keys.rotate_key(books, rotated.key.id)
        add_rows(books)
        books.entries.post("a", "credit", 9, note="ä \\N \t", idempotency_key="again")
    async with open_ledger(path, clock=lambda: NOW_MS) as ledger:
        key = find_key(ledger, own)
        charged = await charge(ledger, key, NANO)
        billed = settlement(7, provider_cost_nano=4, reported_cost_nano=5)
        await ledger.settle(ledger.hold(key, admission()), billed)
        await ledger.settle(ledger.hold(key, replace(admission(), model="other")), void())
        observer = observe(ledger)
        observer.note_refusal(1, "model_not_allowed", "m", "req_3")
        observer.note_latency(1, "p", "m", NOW_MS, first_byte_ms=20, total_ms=700)
        observer.note_upstream_call(
            "p", "m", UpstreamFailure(NOW_MS, "req_1", None, "no", "https://x")
        )
    with SqliteBooks(path, clock=lambda: LATER_MS) as books:
        key_id, times = key_id_of(own), (NOW_MS, NOW_MS + 30 * DAY_MS, LATER_MS)
        add_requests(books.connection, [make_item(1, key_id, at) for at in times], NOW_MS)
        interrupt_pending(books.connection, NOW_MS + 9)
        for at in times:
            ended = make_item(1, key_id, at, settlement(70, ended_ms=at + 9))
            add_requests(books.connection, [ended], at + 9)
        pending = [make_item(1, key_id, at) for at in times[:2]]
        add_requests(books.connection, pending, LATER_MS)
        request_id = charged.admission.request_id
        books.entries.correct("a", -5, note="a correction", request_id=request_id)
        assert books.audit().problems == ()


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history") / "gateway.db"
    asyncio.run(make_history(path))
    return path


@pytest.fixture
def rows(history: Path) -> Rows:
    with open_books(history) as books:
        return read(books)


def read(books: Books) -> Rows:
    with books.snapshot():
        totals: list[int] = []
        version, records = read_records(
            books, lambda _, __=0, total=0, ___="": totals.append(total)
        )
        assert version == SHAPE
        rows = list(records)
    assert set(totals) <= {len(rows)}, "they were counted before"
    return rows


def sort(rows: Rows) -> list[str]:
    """Order rows, which come in the order of their database's tables."""
    return sorted(f"{row.table} {sorted(row.row.items())}" for row in rows)


def import_(url: str, rows: Rows) -> None:
    report = make_ledger(DatabaseUrl(url), SHAPE, rows, clock=lambda: LATER_MS)
    assert report.problems == ()


def read_back(url: str) -> Rows:
    with open_books(DatabaseUrl(url)) as books:
        return read(books)


def count(url: str, sql: str) -> int:
    with closing(open_session(url)) as session:
        (number,) = session.execute(sql).fetchone() or (-1,)
        return int(number)


def test_shapes_are_the_same(postgres_url: str, tmp_path: Path) -> None:
    """A new column of one of them must be one of both, or belong to nodes."""
    assert VERSION == SHAPE
    with SqliteBooks(tmp_path / "gateway.db", create=True) as books:
        names = books.connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
        shapes = {
            name: {row[1] for row in books.connection.execute(f"PRAGMA table_info({name})")}
            - {CHARGE_COLUMN}
            for (name,) in names.fetchall()
        }
    with closing(open_session(postgres_url, create=True)) as session:
        for table in TABLES[1:]:
            found = session.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = ?", (table,)
            )
            assert {name for (name,) in found} - OF_NODES == shapes.pop(table), table
    assert set(shapes) == {
        "changes", "checkpoints", "folded", "sessions", "signin_links", "replays", *FILES,
        "entries_by_account", "daily_totals",
    }  # fmt: skip


def test_a_ledger_goes_there_and_back(rows: Rows, postgres_url: str, tmp_path: Path) -> None:
    assert Counter(row.table for row in rows).keys() == set(TABLES[1:]), "each table has rows"
    import_(postgres_url, rows)
    there = read_back(postgres_url)
    assert sort(there) == sort(rows)
    by_time = "SELECT count(*) FROM requests_{0} WHERE id LIKE 'req_018%'"
    for month, requests in (("2023_11", 3), ("2023_12", 3), ("2024_01", 2), ("other", 0)):
        assert count(postgres_url, by_time.format(month)) == requests, month
    assert count(postgres_url, "SELECT count(*) FROM entries_other") == 0
    last = max(int(str(row.row["id"])) for row in rows if row.table == "entries")
    with open_books(DatabaseUrl(postgres_url)) as books:
        known = len(books.accounts.read_all())  # some are of extras' rows
        assert books.accounts.create("c", credit_nano=1).id == known + 1
        assert books.entries.read_latest("c", 1)[0].id == last + 1, "numbers go on"
        account = books.accounts.find_id("c")
        assert books.keys.budgets.insert(account, "more", Allowance(1, "day")) == 2
        assert books.audit().problems == ()
    report = make_ledger(tmp_path / "new.db", SHAPE, there, clock=lambda: LATER_MS)
    assert report.problems == ()
    with open_books(tmp_path / "new.db") as books:
        assert sort(read(books)) == sort(rows)


async def test_the_first_node_interrupts_what_came_as_pending(
    rows: Rows, postgres_url: str
) -> None:
    """Until then it holds what it held."""
    import_(postgres_url, rows)
    held = "SELECT sum(held_nano + in_flight) FROM accounts"
    assert count(postgres_url, held) == 2 * 1000 + 2
    async with open_ledger(DatabaseUrl(postgres_url), clock=lambda: LATER_MS):
        assert count(postgres_url, held) == 0
    with open_books(DatabaseUrl(postgres_url)) as books:
        report = books.audit()
    assert (report.problems, report.pending, report.interrupted) == ((), 0, 3 + 2)


def edit(rows: Rows, command: str) -> None:
    """`put` other columns into a table's first row, add this row `twice` but for these, or `add` one."""
    verb, table, columns = command.split(" ", 2)
    places = (place for place, row in enumerate(rows) if row.table == table)
    place = next(places, len(rows)) if verb != "add" else len(rows)
    known = {} if verb == "add" else rows[place].row
    made = MoveRecord(table, {**known, **json.loads(columns)})
    rows[place : place + (verb == "put")] = [made]


@pytest.fixture(scope="module")
def empty_url(postgres: Cluster) -> Iterator[str]:
    """A database that every wrong file finds empty, and leaves so."""
    url = postgres.make_database()
    yield url
    postgres.drop_database(url)


@pytest.mark.parametrize(("command", "refusal"), read_spoiled("refused in a move"))
def test_wrong_rows_are_refused(rows: Rows, empty_url: str, command: str, refusal: str) -> None:
    edit(rows, command)
    with pytest.raises(BadRecord, match=refusal) as caught:
        make_ledger(DatabaseUrl(empty_url), SHAPE, rows)
    assert "whsec" not in str(caught.value)
    assert read_back(empty_url) == []


@pytest.mark.parametrize(("command", "problem"), read_spoiled("not kept by a move"))
def test_books_that_do_not_add_up_are_not_kept(
    rows: Rows, empty_url: str, command: str, problem: str
) -> None:
    edit(rows, command)
    report = make_ledger(DatabaseUrl(empty_url), SHAPE, rows)
    assert any(problem in one for one in report.problems), report.problems
    assert read_back(empty_url) == []


def test_an_import_that_breaks_off_keeps_nothing(rows: Rows, empty_url: str) -> None:
    def read_half() -> Iterator[MoveRecord]:
        yield from rows[: len(rows) // 2]
        raise BadRecord("the file ends too early")

    with pytest.raises(BadRecord, match="ends too early"):
        make_ledger(DatabaseUrl(empty_url), SHAPE, read_half())
    assert read_back(empty_url) == []


@pytest.mark.parametrize("version", [0, SHAPE - 1, SHAPE + 1])
def test_another_version_is_refused(empty_url: str, version: int) -> None:
    with pytest.raises(BadRecord, match=f"schema version {version} is not {SHAPE}"):
        make_ledger(DatabaseUrl(empty_url), version, [])


def test_a_ledger_that_is_there_stays(rows: Rows, postgres_url: str) -> None:
    import_(postgres_url, rows)
    with pytest.raises(LedgerError, match="has a ledger already"):
        make_ledger(DatabaseUrl(postgres_url), SHAPE, [])
    assert sort(read_back(postgres_url)) == sort(rows)


def test_a_gateway_that_serves_is_told_of(rows: Rows, postgres_url: str) -> None:
    with closing(open_session(postgres_url, create=True)) as session:
        register(session)
    with pytest.raises(LedgerError, match="a gateway serves from it; stop it"):
        make_ledger(DatabaseUrl(postgres_url), SHAPE, rows)
    assert read_back(postgres_url) == []


def test_a_ledger_without_its_oldest_months_moves_to_postgresql_alone(
    rows: Rows, postgres: Cluster, postgres_url: str, tmp_path: Path
) -> None:
    """A file's entries refer to their requests."""
    rows = [row for row in rows if row.table != "requests" or row.row["state"] != "pending"]
    import_(postgres_url, rows)
    dropped = count(postgres_url, f"SELECT drop_months(to_timestamp({LATER_MS // 1000}), 1)")
    assert dropped == 2
    left = read_back(postgres_url)
    assert left[0].table == "retention"
    other_url = postgres.make_database()
    import_(other_url, left)
    assert sort(read_back(other_url)) == sort(left)
    with pytest.raises(BadRecord, match="no table 'retention'"):
        make_ledger(tmp_path / "new.db", SHAPE, left)
    postgres.drop_database(other_url)
