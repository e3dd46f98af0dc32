"""An entry of the operator's verbs has the balance after it, and the account has it, too."""

from __future__ import annotations

import sqlite3

import pytest

from gateway.ledger.sql.rows import Draft, post_entry
from gateway.ledger.sqlite.schema import transaction

READ = (
    "SELECT kind, amount_nano, balance_after_nano, idempotency_key, note, created_ms FROM entries"
    " ORDER BY id"
)


def read_balance(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT balance_nano FROM accounts").fetchone()[0])


def test_entries_follow_each_other(connection: sqlite3.Connection) -> None:
    (first,) = connection.execute(READ).fetchall()
    with transaction(connection):
        post_entry(connection, Draft(1, "credit", 5, 7, idempotency_key="k", note="n"))
        post_entry(connection, Draft(1, "correction", -1006, 8, note="m"))
    assert connection.execute(READ).fetchall() == [
        first,
        ("credit", 5, 1005, "k", "n", 7),
        ("correction", -1006, -1, None, "m", 8),
    ]
    assert read_balance(connection) == -1


def test_it_is_a_part_of_the_transaction_around_it(connection: sqlite3.Connection) -> None:
    def post() -> None:
        with transaction(connection):
            post_entry(connection, Draft(1, "credit", 5, 7))
            assert read_balance(connection) == 1005
            post_entry(connection, Draft(1, "credit", 2**63, 7))

    with pytest.raises(OverflowError):
        post()
    assert read_balance(connection) == 1000
    assert len(connection.execute(READ).fetchall()) == 1
