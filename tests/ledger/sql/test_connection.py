"""Rows in and out of a connection: as one JSON array, and by the names of their columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from gateway.ledger.sql.connection import MAX_ROWS, insert, insert_numbered, read_columns, read_rows

READ = "SELECT json_group_array(json_array(id, name, n)) FROM numbers WHERE id > :above LIMIT :most"


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE numbers (id INTEGER PRIMARY KEY, name TEXT, n INTEGER)")
        yield connection


def test_rows_are_written_by_name_and_come_as_one_array(connection: sqlite3.Connection) -> None:
    assert insert_numbered(connection, "numbers", {"n": 2**53 + 1, "name": "'; --"}) == 1
    insert(connection, "numbers", {"id": 7, "n": None, "name": ""})
    assert insert_numbered(connection, "numbers", {"n": -1, "name": "ö"}) == 8
    rows = [[1, "'; --", 2**53 + 1], [7, "", None], [8, "ö", -1]]
    assert read_rows(connection, READ, {"above": 0, "most": MAX_ROWS}) == rows
    assert read_rows(connection, READ, {"above": 1, "most": MAX_ROWS}) == rows[1:]


def test_no_rows_are_an_empty_list(connection: sqlite3.Connection) -> None:
    """Also where an aggregate of nothing is NULL."""
    assert read_rows(connection, READ, {"above": 0, "most": MAX_ROWS}) == []
    assert read_rows(connection, "SELECT NULL") == []


def test_columns_come_as_arrays_which_no_rows_leave_empty(connection: sqlite3.Connection) -> None:
    """Also where an aggregate of nothing is NULL."""
    insert(connection, "numbers", {"id": 1, "name": "a", "n": None})
    insert(connection, "numbers", {"id": 2, "name": "b", "n": 2**53 + 1})
    read = "SELECT json_array(json_group_array(name), json_group_array(n)) FROM numbers"
    assert read_columns(connection, read) == [["a", "b"], [None, 2**53 + 1]]
    assert read_columns(connection, read + " WHERE id > :id", {"id": 2}) == [[], []]
    assert read_columns(connection, "SELECT json_array(NULL, NULL)") == [[], []]
