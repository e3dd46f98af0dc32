"""Searches of the ledger: which keys are looked through."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.extras.finder.book import SearchBook
from gateway.ledger.opening import open_books
from tests.ledger.kit import check_plan
from tests.support.served import make_database


@pytest.mark.parametrize("account", [1, None], ids=["holder", "operator"])
def test_a_holder_s_search_looks_through_no_other_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, account: int | None
) -> None:
    path, asked = make_database(tmp_path), list[str]()
    with open_books(path) as books:
        book = SearchBook(books)

        def note(_: object, sql: str, __: object) -> list[object]:
            asked.append(sql)
            return []

        monkeypatch.setattr(type(book._database), "fetch", note)
        assert book.find_keys("lap", account) == []
    check_plan(path, *asked, sorts=True, scans=() if account else ("keys", "accounts"))
