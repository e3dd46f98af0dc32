"""Locations of ledgers, and how they are opened."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from gateway import extension
from gateway.ledger.opening import check_ledger, find_server, open_books, open_ledger
from gateway.ledger.records import DatabaseUrl, LedgerError
from gateway.ledger.sqlite.books import SqliteBooks
from tests.support.stand_in import URL, stand_in

WHERE: Final = DatabaseUrl(URL)


def test_an_address_leads_to_an_extras_database_and_a_path_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = stand_in(monkeypatch, tmp_path / "behind.db", pid=7)
    with open_books(WHERE, create=True) as books:
        assert isinstance(books, SqliteBooks)
    assert check_ledger(WHERE)
    assert opened == [URL] * 2
    assert find_server(WHERE) == 7
    called: Any = open_ledger(WHERE, retention_months=3, commit_seconds=1.5)
    assert called[0] == URL
    assert (called[1]["retention_months"], called[1]["commit_seconds"]) == (3, 1.5)
    assert set(called[1]) == {"clock", "commit_seconds", "tell", "retention_months"}
    # A file is none of its business.
    with open_books(tmp_path / "own.db", create=True):
        pass
    assert not check_ledger(tmp_path / "own.db")
    assert find_server(tmp_path / "own.db") is None
    assert opened == [URL] * 2


@pytest.mark.parametrize("use", [open_books, open_ledger, check_ledger, find_server])
def test_without_the_extra_its_name_is_told(
    monkeypatch: pytest.MonkeyPatch, use: Callable[[DatabaseUrl], object]
) -> None:
    monkeypatch.setattr(extension, "find_extras", dict)
    with pytest.raises(LedgerError, match=r"\[storage\] url needs (an|the) extra"):
        use(WHERE)


def test_the_index_names_the_extra_of_each_table() -> None:
    index = tomllib.loads(extension.INDEX.read_text(encoding="utf-8"))["ledger"]
    tables = {
        name: one for one, its in extension.find_ledger_tables().items() for name in its.names
    }
    assert tables.items() <= index.items()
