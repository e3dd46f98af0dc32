"""Openers go by the location, and say what is missing where PostgreSQL's driver is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.ledger.locations import DatabaseUrl
from gateway.ledger.opening import check_ledger, find_server, make_ledger, open_books, open_ledger
from gateway.ledger.records import LedgerError
from gateway.ledger.sqlite.books import SqliteBooks
from tests.support.stand_in import PACKAGE, URL, stand_in

WHERE: Final = DatabaseUrl(URL)


def test_an_address_leads_to_postgresql_and_a_path_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = stand_in(monkeypatch, tmp_path / "behind.db", pid=7)
    with open_books(WHERE, create=True) as books:
        assert isinstance(books, SqliteBooks)
        version, _ = books.read_records()
    assert check_ledger(WHERE)
    (tmp_path / "behind.db").unlink()
    assert make_ledger(WHERE, version, []).ok
    assert opened == [URL] * 3
    assert find_server(WHERE) == 7
    called: Any = open_ledger(WHERE, retention_months=3, commit_seconds=1.5)
    assert called[0] == (URL,)
    assert (called[1]["retention_months"], called[1]["commit_seconds"]) == (3, 1.5)
    assert set(called[1]) == {*("clock", "commit_seconds", "tell", "note_commit"), "retention_months"}  # fmt: skip
    # A file is none of PostgreSQL's business.
    with open_books(tmp_path / "own.db", create=True):
        pass
    assert not check_ledger(tmp_path / "own.db")
    assert find_server(tmp_path / "own.db") is None
    assert opened == [URL] * 3


def test_a_node_elsewhere_does_not_serve_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, tmp_path / "behind.db", pid=7)
    monkeypatch.setattr(sys.modules[f"{PACKAGE}.nodes"], "find_server", lambda _: None)
    assert not check_ledger(WHERE)


class Lacking:
    """An importer of a machine where a module is not installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name.startswith(PACKAGE):
            raise ModuleNotFoundError(f"No module named '{self._name}'", name=self._name)
        return None


@pytest.mark.parametrize(
    "use",
    [open_books, open_ledger, check_ledger, find_server, lambda url: make_ledger(url, 1, [])],
)
def test_without_the_driver_its_installation_is_told(
    monkeypatch: pytest.MonkeyPatch, use: Callable[[DatabaseUrl], object]
) -> None:
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("gateway.ledger.postgres", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Lacking("psycopg.pq"), *sys.meta_path])
    with pytest.raises(LedgerError, match=r"pip install 'gateway\[postgres\]'"):
        use(WHERE)
    monkeypatch.setattr(sys, "meta_path", [Lacking("another"), *sys.meta_path])
    with pytest.raises(ModuleNotFoundError, match="another"):
        use(WHERE)
