"""Statements with many rows: padded to few shapes, and the padding does nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from gateway.ledger.sqlite.totals import Statement, read_numbers, run_rows

INSERT = Statement("INSERT INTO numbers SELECT * FROM", "WHERE column1 NOT NULL")
READ = Statement("SELECT json_group_array(json_array(id, n)) FROM numbers WHERE id IN")


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE numbers (id TEXT, n INTEGER)")
        yield connection


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 512])
def test_each_row_is_written_and_read_once(connection: sqlite3.Connection, count: int) -> None:
    rows = [(f"id{n}", n) for n in range(count)]
    assert run_rows(connection, INSERT, rows) == count
    assert connection.execute("SELECT * FROM numbers").fetchall() == rows
    assert read_numbers(connection, READ, [id_ for id_, _ in rows]) == dict(rows)
    assert read_numbers(connection, READ, ["unknown"]) == {}


def test_a_connection_meets_few_statements(connection: sqlite3.Connection) -> None:
    seen: set[str] = set()
    connection.set_trace_callback(seen.add)
    for count in range(1, 65):
        read_numbers(connection, READ, [""] * count)
    shapes = {text.count("(''") + text.count("(NULL") for text in seen}
    assert shapes == {1, 2, 4, 8, 16, 32, 64}
