"""The proof over a connection: what is proven, by which checks, and where the next one begins.

`sqlite/test_audit` breaks everything that it proves.
"""

from __future__ import annotations

import sqlite3

import pytest

from gateway.ledger.sql.audit import (
    MAX_PROBLEMS,
    Check,
    prove,
    read_checkpoint,
    read_last_entry,
    write_checkpoint,
)
from gateway.ledger.sql.rows import Draft, end_period, post_entry

SINCE_AND_KEPT = Check("SELECT :since, :kept_from", "proven to {0}, kept from {1}")
NUMBERS = """
    WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000)
    SELECT n FROM numbers
"""


@pytest.fixture(autouse=True)
def functions(connection: sqlite3.Connection) -> None:
    connection.create_function("end_period", 2, end_period, deterministic=True)


def test_a_part_is_proven_from_the_entry_on(connection: sqlite3.Connection) -> None:
    post_entry(connection, Draft(1, "credit", 5, 7))
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
    check = Check(NUMBERS, "number {0}", lambda row: (-row[0],))
    problems = prove(connection, 0, full=True, more_checks=[check]).problems
    assert problems == tuple(f"number -{n}" for n in range(1, MAX_PROBLEMS + 1))


def test_a_checkpoint_never_goes_back(connection: sqlite3.Connection) -> None:
    assert read_checkpoint(connection) == 0
    for entry_id, last in ((1, 1), (0, 1), (1, 1)):
        write_checkpoint(connection, entry_id, 7)
        assert read_checkpoint(connection) == last
    assert connection.execute("SELECT count(*) FROM checkpoints").fetchone() == (1,)
