"""Rows in and out of a connection: by names, as one JSON array, as terms, as entries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import ledger
from gateway.ledger.key_records import KeyTerms, Terms
from gateway.ledger.sql.database import (
    MAX_ROWS,
    read_key_terms,
    read_script,
    read_terms,
    write_terms,
)
from gateway.ledger.sqlite.books import SqliteBooks

READ = "SELECT json_group_array(json_array(id, name, n)) FROM numbers WHERE id > :above LIMIT :most"


@pytest.fixture
def numbers(tmp_path: Path) -> Iterator[SqliteBooks]:
    with SqliteBooks(tmp_path / "gateway.db", create=True) as numbers:
        numbers.change("CREATE TABLE numbers (id INTEGER PRIMARY KEY, name TEXT, n INTEGER)", ())
        yield numbers


def test_rows_are_written_by_name_and_come_as_one_array(numbers: SqliteBooks) -> None:
    assert numbers.insert_numbered("numbers", {"n": 2**53 + 1, "name": "'; --"}) == 1
    numbers.insert("numbers", {"id": 7, "n": None, "name": ""})
    assert numbers.insert_numbered("numbers", {"n": -1, "name": "ö"}) == 8
    rows = [[1, "'; --", 2**53 + 1], [7, "", None], [8, "ö", -1]]
    assert numbers.read_rows(READ, {"above": 0, "most": MAX_ROWS}) == rows
    assert numbers.read_rows(READ, {"above": 1, "most": MAX_ROWS}) == rows[1:]


def test_no_rows_are_an_empty_list(numbers: SqliteBooks) -> None:
    """Also where an aggregate of nothing is NULL."""
    assert numbers.read_rows(READ, {"above": 0, "most": MAX_ROWS}) == []
    assert numbers.read_rows("SELECT NULL") == []


def test_columns_come_as_arrays_which_no_rows_leave_empty(numbers: SqliteBooks) -> None:
    """Also where an aggregate of nothing is NULL."""
    numbers.insert("numbers", {"id": 1, "name": "a", "n": None})
    numbers.insert("numbers", {"id": 2, "name": "b", "n": 2**53 + 1})
    read = "SELECT json_array(json_group_array(name), json_group_array(n)) FROM numbers"
    assert numbers.read_columns(read) == [["a", "b"], [None, 2**53 + 1]]
    assert numbers.read_columns(read + " WHERE id > :id", {"id": 2}) == [[], []]
    assert numbers.read_columns("SELECT json_array(NULL, NULL)") == [[], []]


def test_terms_are_read_in_the_order_of_their_fields() -> None:
    assert read_terms(('["m"]', 1, 2, 3)) == Terms(("m",), 1, 2, 3)
    read = read_key_terms(('["m"]', 1, 2, 3, "n", 4, 5, 6))
    assert read == KeyTerms(("m",), 1, 2, 3, "n", 4, 5, 6)
    assert read_key_terms((None, None, None, None, "", None, None, None)) == KeyTerms()
    assert write_terms(read)["models"] == '["m"]'
    assert write_terms(Terms())["models"] is None


LEDGER = Path(ledger.__file__).parent


@pytest.mark.parametrize("script", [*LEDGER.glob("*/proof*.sql"), *LEDGER.glob("sql/*.sql")])
def test_every_statement_of_a_script_is_read_and_used(script: Path) -> None:
    """One that was passed over, such as a check of the audit, would be missed by nobody."""
    statements = read_script(str(script))
    assert len(statements) == script.read_text().count(";\n")
    if not script.name.startswith("proof"):
        module = script.with_suffix(".py").read_text()
        assert {*re.findall(r'SQL\["([^"]+)"\]', module)} == statements.keys()
