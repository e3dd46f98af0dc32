"""Locations of ledgers, and how they are opened."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.ledger.opening import check_ledger, find_server, make_ledger, open_books, open_ledger
from gateway.ledger.records import DatabaseUrl, LedgerError, read_database_url
from gateway.ledger.sqlite.books import SqliteBooks
from tests.support.rows import each_row
from tests.support.stand_in import PACKAGE, PASSWORD, SHOWN, URL, stand_in

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
    assert set(called[1]) == {"clock", "commit_seconds", "tell", "retention_months"}
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
    "use", [open_books, open_ledger, check_ledger, find_server, lambda url: make_ledger(url, 1, [])]
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


@each_row(
    ("address", "shown"),
    [
        (URL, SHOWN),
        ("postgres://keeper@db/books", "postgresql://keeper@db/books"),
        ("postgresql://db.example.com", "postgresql://db.example.com"),
        ("postgresql:///books?host=/run/postgresql", "postgresql:///books"),
        ("postgresql://%2Frun%2Fpostgresql/books", "postgresql://%2Frun%2Fpostgresql/books"),
        (f"postgresql://a:{PASSWORD}@[::1]:5432/b", "postgresql://a@[::1]:5432/b"),
        (f"postgresql://a:%40{PASSWORD}==@one:1,two:2/b", "postgresql://a@one:1,two:2/b"),
        (f"postgresql://a@h/b?password={PASSWORD}&port=1", "postgresql://a@h/b"),
        (f"postgresql://:{PASSWORD}@h/b", "postgresql://@h/b"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    url = read_database_url(address)
    assert url == DatabaseUrl(address)
    assert str(url) == f"{url}" == shown
    assert PASSWORD not in repr(url)


@each_row(
    ("address", "rule"),
    [
        (PASSWORD, "must begin with postgresql://"),
        (f"mysql://a:{PASSWORD}@h/b", "must begin with postgresql://"),
        (f"host=h password={PASSWORD}", "must begin with postgresql://"),
        (f"postgresql://a:{PASSWORD}", "such as %40 for @"),  # not a port
        (f"postgresql://a:{PASSWORD}@x@h/b", "such as %40 for @"),
        (f"postgresql://a:{PASSWORD}/x@h/b", "such as %40 for @"),
        (f"postgresql://a:{PASSWORD}?x@h/b", "such as %40 for @"),
        (f"postgresql://a:{PASSWORD}#x@h/b", "such as %40 for @"),
        (f"postgresql://a:{PASSWORD}%x@h/b", "such as %40 for @"),  # libpq would repeat it
        (f"postgresql://a:{PASSWORD}%00@h/b", "such as %40 for @"),
        (f"postgresql://h/b?{PASSWORD}", "such as %40 for @"),
        (f"postgresql://h/b?password={PASSWORD}=", "such as %40 for @"),
        (f"postgresql://h:5432x{PASSWORD}/b", "such as %40 for @"),
    ],
)
def test_what_is_no_address_is_refused_and_never_repeated(address: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule) as caught:
        read_database_url(address)
    assert PASSWORD not in str(caught.value)
    assert PASSWORD not in f"{DatabaseUrl(address)} {DatabaseUrl(address)!r}"
