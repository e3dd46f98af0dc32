"""Statements with many rows.

Every step of a statement gives up the GIL and has to win it back from a busy event loop, which
costs more than the step itself: beside a loop that never slept, `executemany` of 64 requests took
500 ms, one statement with all rows in its VALUES 28 ms. The same applies to rows that are read, so
they come back as one JSON array. The rows are padded with NULLs to a power of two, so that a
connection meets few different statements and keeps them prepared.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from itertools import chain
from typing import Final, TypeVar

import orjson

from gateway.ledger.key_records import KeyTerms, Terms

Id = TypeVar("Id", int, str)
Row = tuple[int | str | None, ...]
TermsColumns = tuple[str | None, int | None, int | None, int | None]
"""A row of `TERMS`: the fields of `Terms`, with the models as a JSON array."""
KeyTermsColumns = tuple[*TermsColumns, str, int | None, int | None, int | None]
"""A row of `KEY_TERMS`: the fields of `KeyTerms`."""
TERMS: Final = ", ".join(f"accounts.{field.name}" for field in fields(Terms))
KEY_TERMS: Final = ", ".join(f"keys.{field.name}" for field in fields(KeyTerms))
SET_TERMS: Final = ", ".join(f"{field.name} = :{field.name}" for field in fields(Terms))
"""The assignments of an UPDATE, for the columns of `write_terms`."""
SET_KEY_TERMS: Final = ", ".join(f"{field.name} = :{field.name}" for field in fields(KeyTerms))
KEY_LIVES: Final = "revoked_ms IS NULL AND (expires_ms IS NULL OR expires_ms > :now)"
"""The condition under which `KeyView.status` is neither revoked nor expired."""


@dataclass(frozen=True, slots=True)
class Statement:
    """The SQL before and after the rows. A padding row is all NULL and must have no effect."""

    before: str
    after: str = ""


def run_rows(connection: sqlite3.Connection, statement: Statement, rows: Sequence[Row]) -> int:
    """Run the statement over rows of equal length; return the number of rows it changed."""
    if not rows:
        return 0
    return _execute(connection, statement, rows).rowcount


def read_numbers(
    connection: sqlite3.Connection, statement: Statement, ids: Collection[Id]
) -> dict[Id, int]:
    """Return the number of each id; `statement` gives a JSON array of [id, number] pairs."""
    return dict(orjson.loads(read_json(connection, statement, ids))) if ids else {}


def read_json(connection: sqlite3.Connection, statement: Statement, ids: Collection[Id]) -> str:
    """Return what `statement` gives for these ids, of which there must be some, as one JSON array."""
    (array,) = _execute(connection, statement, [(id_,) for id_ in ids]).fetchone()
    return str(array)


def read_terms(columns: TermsColumns) -> Terms:
    return _make_terms(*columns)


def read_key_terms(columns: KeyTermsColumns) -> KeyTerms:
    models, requests, tokens, concurrency, name, cap_nano, expires_ms, budget_id = columns
    limits = (requests, tokens, concurrency)
    return KeyTerms(_read_models(models), *limits, name, cap_nano, expires_ms, budget_id)


def write_terms(terms: Terms) -> dict[str, int | str | None]:
    """Return the columns of terms by name."""
    columns = asdict(terms)
    if terms.models is not None:
        columns["models"] = orjson.dumps(terms.models).decode()
    return columns


@lru_cache(maxsize=256)
def _make_terms(models: str | None, *limits: int | None) -> Terms:
    """Return the same object for the same terms: most accounts have no others."""
    return Terms(_read_models(models), *limits)


@lru_cache(maxsize=256)
def _read_models(column: str | None) -> tuple[str, ...] | None:
    return None if column is None else tuple(orjson.loads(column))


def _execute(
    connection: sqlite3.Connection, statement: Statement, rows: Sequence[Row]
) -> sqlite3.Cursor:
    columns = len(rows[0])
    count = 1 << (len(rows) - 1).bit_length()
    padding = (None,) * (columns * (count - len(rows)))
    return connection.execute(
        _compose(statement, columns, count), (*chain.from_iterable(rows), *padding)
    )


@lru_cache(maxsize=256)
def _compose(statement: Statement, columns: int, count: int) -> str:
    row = "(" + ",".join("?" * columns) + ")"
    return f"{statement.before} (VALUES {','.join([row] * count)}) {statement.after}"
