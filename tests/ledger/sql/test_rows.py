"""Rows in and out of a connection: by names, as one JSON array, as terms, as entries."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger.key_records import KeyTerms, Terms
from gateway.ledger.sql.connection import MAX_ROWS, insert, insert_numbered, read_columns, read_rows
from gateway.ledger.sql.rows import (
    Draft,
    post_entry,
    read_key_terms,
    read_receipt,
    read_terms,
    write_terms,
)
from gateway.ledger.sqlite.schema import connect, transaction

READ = "SELECT json_group_array(json_array(id, name, n)) FROM numbers WHERE id > :above LIMIT :most"


@pytest.fixture
def numbers() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as numbers:
        numbers.execute("CREATE TABLE numbers (id INTEGER PRIMARY KEY, name TEXT, n INTEGER)")
        yield numbers


def test_rows_are_written_by_name_and_come_as_one_array(numbers: sqlite3.Connection) -> None:
    assert insert_numbered(numbers, "numbers", {"n": 2**53 + 1, "name": "'; --"}) == 1
    insert(numbers, "numbers", {"id": 7, "n": None, "name": ""})
    assert insert_numbered(numbers, "numbers", {"n": -1, "name": "ö"}) == 8
    rows = [[1, "'; --", 2**53 + 1], [7, "", None], [8, "ö", -1]]
    assert read_rows(numbers, READ, {"above": 0, "most": MAX_ROWS}) == rows
    assert read_rows(numbers, READ, {"above": 1, "most": MAX_ROWS}) == rows[1:]


def test_no_rows_are_an_empty_list(numbers: sqlite3.Connection) -> None:
    """Also where an aggregate of nothing is NULL."""
    assert read_rows(numbers, READ, {"above": 0, "most": MAX_ROWS}) == []
    assert read_rows(numbers, "SELECT NULL") == []


def test_columns_come_as_arrays_which_no_rows_leave_empty(numbers: sqlite3.Connection) -> None:
    """Also where an aggregate of nothing is NULL."""
    insert(numbers, "numbers", {"id": 1, "name": "a", "n": None})
    insert(numbers, "numbers", {"id": 2, "name": "b", "n": 2**53 + 1})
    read = "SELECT json_array(json_group_array(name), json_group_array(n)) FROM numbers"
    assert read_columns(numbers, read) == [["a", "b"], [None, 2**53 + 1]]
    assert read_columns(numbers, read + " WHERE id > :id", {"id": 2}) == [[], []]
    assert read_columns(numbers, "SELECT json_array(NULL, NULL)") == [[], []]


def test_terms_are_read_in_the_order_of_their_fields() -> None:
    assert read_terms(('["m"]', 1, 2, 3)) == Terms(("m",), 1, 2, 3)
    read = read_key_terms(('["m"]', 1, 2, 3, "n", 4, 5, 6))
    assert read == KeyTerms(("m",), 1, 2, 3, "n", 4, 5, 6)
    assert read_key_terms((None, None, None, None, "", None, None, None)) == KeyTerms()
    assert write_terms(read)["models"] == '["m"]'
    assert write_terms(Terms())["models"] is None


READ_ENTRIES = (
    "SELECT kind, amount_nano, balance_after_nano, idempotency_key, note, created_ms FROM entries"
    " ORDER BY id"
)


def read_balance(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT balance_nano FROM accounts").fetchone()[0])


def test_entries_follow_each_other(connection: sqlite3.Connection) -> None:
    (first,) = connection.execute(READ_ENTRIES).fetchall()
    with transaction(connection):
        post_entry(connection, Draft(1, "credit", 5, 7, idempotency_key="k", note="n"))
        post_entry(connection, Draft(1, "correction", -1006, 8, note="m"))
    assert connection.execute(READ_ENTRIES).fetchall() == [
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
    assert len(connection.execute(READ_ENTRIES).fetchall()) == 1


def test_an_unknown_request_has_none(tmp_path: Path) -> None:
    connection = connect(tmp_path / "gateway.db", create=True)
    assert read_receipt(connection, request_id="req_none") is None
    connection.close()
