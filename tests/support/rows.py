"""A table of rows as one test: all rows are played, and those that fail are told by name."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import pytest

Test = Callable[..., Any]
Decorator = Callable[[Test], Test]
ID_CHARS: Final = 100
SHOWN: Final = 10
"""Failures told in full; one is mostly enough, and tables are long."""


@contextmanager
def told_together() -> Iterator[Callable[[str], Any]]:
    """Give a context for each row: its failure waits until all rows have been played."""
    failures: list[Exception] = []

    @contextmanager
    def row(name: str) -> Iterator[None]:
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - told below, with its row
            told = error if isinstance(error, Exception) else AssertionError(str(error))
            told.add_note(f"row: {name[:500]}")
            failures.append(told)

    yield row
    if failures:
        raise ExceptionGroup(f"{len(failures)} rows failed", failures[:SHOWN])


def each_row(names: str | Sequence[str], rows: Iterable[Any]) -> Decorator:
    """Play a test once for each row, like `parametrize`, but as one case.

    Decorators stand above each other as those do. What is no column is a fixture, and the rows
    share it; but each has a `tmp_path` of its own. With `GATEWAY_ROWS=1` it is `parametrize`: each row
    is a case with an id, for `-k`, reports and the debugger. That takes longer.
    """
    columns = [one.strip() for one in names.split(",")] if isinstance(names, str) else list(names)
    table = [_read_row(columns, row) for row in rows]
    if os.environ.get("GATEWAY_ROWS"):
        values = [tuple(named.values()) for _, named in table]
        return pytest.mark.parametrize(columns, values, ids=[name[:ID_CHARS] for name, _ in table])
    return lambda test: _make_test(test, columns, table)


def _read_row(columns: Sequence[str], row: Any) -> tuple[str, dict[str, Any]]:
    values = getattr(row, "values", None) if type(row).__name__ == "ParameterSet" else None
    if values is None:
        values = (row,) if len(columns) == 1 else tuple(row)
    named = dict(zip(columns, values, strict=True))
    return getattr(row, "id", None) or repr(named), named


def _make_test(test: Test, columns: Sequence[str], table: list[tuple[str, dict[str, Any]]]) -> Test:
    tables = [*getattr(test, "tables", ()), table]
    plain = getattr(test, "plain", test)
    signature = inspect.signature(test)

    def combine() -> Iterator[tuple[str, dict[str, Any]]]:
        for rows in itertools.product(*reversed(tables)):
            yield (
                "; ".join(name for name, _ in rows),
                {column: value for _, named in rows for column, value in named.items()},
            )

    def fill(number: int, fixtures: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
        if "tmp_path" in fixtures:
            folder = fixtures["tmp_path"] / f"row-{number}"
            folder.mkdir()
            named = {"tmp_path": folder, **named}
        return {**fixtures, **named}

    async def play_later(**fixtures: Any) -> None:
        with told_together() as row:
            for number, (name, named) in enumerate(combine()):
                with row(name):
                    await plain(**fill(number, fixtures, named))

    def play(**fixtures: Any) -> None:
        with told_together() as row:
            for number, (name, named) in enumerate(combine()):
                with row(name):
                    plain(**fill(number, fixtures, named))

    made: Any = functools.wraps(plain)(play_later if inspect.iscoroutinefunction(plain) else play)
    made.tables, made.plain = tables, plain
    kept = [one for name, one in signature.parameters.items() if name not in columns]
    made.__signature__ = signature.replace(parameters=kept)
    return cast("Test", made)
