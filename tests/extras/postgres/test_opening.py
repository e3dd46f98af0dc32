"""Databases at addresses: how they are named, and what is told without their driver."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Final

import pytest

from gateway.extras.moves.ledgers import make_ledger
from gateway.extras.postgres.urls import read_url, show_url
from gateway.ledger.opening import check_ledger, find_server, open_books, open_ledger
from gateway.ledger.records import DatabaseUrl, LedgerError
from tests.support.rows import each_row
from tests.support.settings import refusal
from tests.support.stand_in import PASSWORD, SHOWN, URL

PACKAGE: Final = "gateway.extras.postgres"
NEED_DRIVER: Final = [
    f"{PACKAGE}.{one}" for one in ("books", "moving", "nodes", "schema", "serving")
]
WHERE: Final = DatabaseUrl(URL)


def test_a_node_elsewhere_does_not_serve_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{PACKAGE}.schema.check_database", lambda _: True)
    for pid in (7, None):
        monkeypatch.setattr(f"{PACKAGE}.nodes.find_server", lambda _, pid=pid: pid)
        assert check_ledger(WHERE) is (pid is not None)


class Lacking:
    """An importer of a machine where a module is not installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name in NEED_DRIVER:
            raise ModuleNotFoundError(f"No module named '{self._name}'", name=self._name)
        return None


@pytest.mark.parametrize(
    "use", [open_books, open_ledger, check_ledger, find_server, lambda url: make_ledger(url, 1, [])]
)
def test_without_the_driver_its_installation_is_told(
    monkeypatch: pytest.MonkeyPatch, use: Callable[[DatabaseUrl], object]
) -> None:
    for name in NEED_DRIVER:
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.delattr(name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Lacking("psycopg.pq"), *sys.meta_path])
    with pytest.raises(LedgerError, match=r"needs PostgreSQL's driver: (type|add) `"):
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
        ("postgresql:///books?host=%2Frun%2Fpostgresql", "postgresql:///books"),
        ("postgresql://%2Frun%2Fpostgresql/books", "postgresql://%2Frun%2Fpostgresql/books"),
        (f"postgresql://a:{PASSWORD}@[::1]:5432/b", "postgresql://a@[::1]:5432/b"),
        (f"postgresql://a:%40{PASSWORD}==@one:1,two:2/b", "postgresql://a@one:1,two:2/b"),
        (f"postgresql://a@h/b?password={PASSWORD}&port=1", "postgresql://a@h/b"),
        (f"postgresql://:{PASSWORD}@h/b", "postgresql://@h/b"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    url = read_url(address)
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
        read_url(address)
    assert PASSWORD not in str(caught.value)
    assert PASSWORD not in f"{show_url(address)} {DatabaseUrl(address)!r}"


def test_an_address_of_another_kind_is_refused_by_its_place(tmp_path: Path) -> None:
    told = refusal(tmp_path, f'[storage]\nurl = "mysql://a:{PASSWORD}@h/b"\n')
    assert told.startswith("gateway.toml: [storage] url: must begin with postgresql://, such as")
