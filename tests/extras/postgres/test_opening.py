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


def test_an_address_is_shown_without_its_password() -> None:
    """`examples.txt` has others, and what is refused."""
    url = read_url(URL)
    assert url == WHERE
    assert str(url) == f"{url}" == SHOWN
    assert PASSWORD not in repr(url)
    assert PASSWORD not in f"{show_url(f'{URL} x')} {DatabaseUrl(f'{URL} x')!r}", "it is none"


def test_an_address_of_another_kind_is_refused_by_its_place(tmp_path: Path) -> None:
    told = refusal(tmp_path, f'[storage]\nurl = "mysql://a:{PASSWORD}@h/b"\n')
    assert told.startswith("gateway.toml: [storage] url: must begin with postgresql://, such as")
