"""Rows of a ledger make another one, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from gateway.ledger import Allowance, BadRecord, KeyTerms, LedgerError, MoveRecord
from gateway.ledger.postgres.books import PostgresBooks
from gateway.ledger.postgres.moving import TABLES, make_ledger
from gateway.ledger.postgres.schema import SHAPE
from gateway.ledger.postgres.serving.ledger import PostgresLedger
from gateway.ledger.postgres.session import connect
from tests.ledger.contract.kit import NOW_MS, admission, charge, create_key, find_key
from tests.ledger.databases import Databases, ask


@pytest.fixture
async def records(ledger_url: str) -> list[MoveRecord]:
    """Those of a ledger with charges and a request in flight."""
    with PostgresBooks(ledger_url, clock=lambda: NOW_MS) as books:
        books.accounts.create("a", credit_nano=5000, operator=False)
        team = books.budgets.create("a", "team", Allowance(1000, "day"))
        digest = create_key(books, "a", KeyTerms(budget_id=team.id))
        async with PostgresLedger.open(ledger_url, clock=lambda: NOW_MS) as ledger:
            await charge(ledger, find_key(ledger, digest), 70)
            await ledger.wait_admitted(ledger.hold(find_key(ledger, digest), admission()))
            with books.snapshot():
                version, rows = books.read_records()
                assert version == SHAPE
                return list(rows)


@pytest.fixture
def target(databases: Databases) -> Iterator[str]:
    with databases.lend() as url:
        yield url


def test_every_row_moves(records: list[MoveRecord], target: str, ledger_url: str) -> None:
    report = make_ledger(target, SHAPE, records, NOW_MS)
    assert (report.ok, report.pending) == (True, 1)
    with PostgresBooks(target) as books, books.snapshot():
        assert list(books.read_records()[1]) == records
    with closing(connect(target)) as session:
        held = "SELECT held_nano FROM {0}"
        for table in ("accounts", "keys", "budgets"):
            assert ask(session, held.format(table)) == 1000
        where = "SELECT count(*) FROM requests_other"
        assert ask(session, where) == 2, "their ids name no month"
        assert ask(session, "SELECT count(*) FROM entries_2023_11") == 2
    assert ledger_url != target


def test_numbers_go_on_where_they_were(records: list[MoveRecord], target: str) -> None:
    make_ledger(target, SHAPE, records, NOW_MS)
    with PostgresBooks(target) as books:
        assert books.accounts.create("b", credit_nano=1, operator=False).id == 2
        assert books.audit().ok


async def test_what_moved_in_flight_is_interrupted_when_it_is_served(
    records: list[MoveRecord], target: str
) -> None:
    make_ledger(target, SHAPE, records, NOW_MS)
    async with PostgresLedger.open(target, clock=lambda: NOW_MS + 9):
        with PostgresBooks(target) as books:
            report = books.audit()
    assert (report.ok, report.pending, report.interrupted) == (True, 0, 1)


def test_a_ledger_that_is_there_is_not_added_to(records: list[MoveRecord], target: str) -> None:
    make_ledger(target, SHAPE, records, NOW_MS)
    with pytest.raises(LedgerError, match="an import needs a database without accounts"):
        make_ledger(target, SHAPE, records, NOW_MS)


def test_what_does_not_add_up_is_not_kept(records: list[MoveRecord], target: str) -> None:
    spoiled = [
        replace(one, row={**one.row, "balance_nano": 1}) if one.table == "accounts" else one
        for one in records
    ]
    report = make_ledger(target, SHAPE, spoiled, NOW_MS)
    assert not report.ok
    with closing(connect(target)) as session:
        for table in TABLES:
            assert ask(session, f"SELECT count(*) FROM {table}") == 0


@pytest.mark.parametrize("version", [0, SHAPE - 1, SHAPE + 1])
def test_another_version_is_refused(target: str, version: int) -> None:
    with pytest.raises(BadRecord, match=f"version {version} is not {SHAPE}"):
        make_ledger(target, version, [], NOW_MS)


@pytest.mark.parametrize(
    "record",
    [
        MoveRecord("accounts; DROP TABLE keys", {"id": 1}),
        MoveRecord("accounts", {"id) VALUES (1); --": 1}),
        MoveRecord("accounts", {"held_nano": 1}),
        MoveRecord("nodes", {"id": 1}),
        MoveRecord("accounts", {}),
    ],
)
def test_no_name_reaches_the_statement(target: str, record: MoveRecord) -> None:
    with pytest.raises(BadRecord, match=r"no table .* with such columns"):
        make_ledger(target, SHAPE, [record], NOW_MS)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"id": 1, "name": "a", "created_ms": 1, "operator": 7}, BadRecord),
        ({"id": 1, "name": "a"}, BadRecord),
        ({"id": 2**64, "name": "a", "created_ms": 1}, (BadRecord, LedgerError)),
    ],
)
def test_a_row_that_breaks_a_rule_is_refused(
    target: str, row: dict[str, str | int | bytes | None], error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"\w"):
        make_ledger(target, SHAPE, [MoveRecord("accounts", row)], NOW_MS)
