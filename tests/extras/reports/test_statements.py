"""Statements of a period."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from gateway.extras.reports.records import sum_statement
from gateway.extras.reports.statements import StatementBook
from gateway.ledger.records import NotFound
from gateway.ledger.sql.books import Books
from tests.ledger.sql.conftest import FIRST


def test_openings_and_movements_make_the_closings(moved: Books) -> None:
    before, inside, behind = (
        StatementBook(moved).read(*days)
        for days in ((0, FIRST), (FIRST, FIRST + 30), (FIRST + 30, FIRST + 99))
    )
    assert [astuple(one) for one in inside] == [("a", 1003, 540, 0, 0, -270, -2)]
    assert (before[0].closing_nano, behind[0].opening_nano) == (1003, 1271)
    assert StatementBook(moved).read(FIRST, FIRST + 30, "a") == inside
    for line in behind:
        assert line.closing_nano == moved.accounts.read(line.account).balance_nano
    total = sum_statement(behind)
    assert astuple(total) == ("total", 1271, 6009, 0, 0, -3000, -1)
    assert total.closing_nano == 4279
    with pytest.raises(NotFound):
        StatementBook(moved).read(FIRST, FIRST + 30, "none")
