"""The operator's books beside others who change them, and beside a server; `sql/played` has the rest."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from gateway.ledger.records import Conflict, EntryView, NotFound, Refused
from gateway.ledger.sql.books import Books
from tests.ledger.contract.kit import Place, admission, read_receipt, settlement

RACERS = 20


def race(place: Place, do: Callable[[Books], object]) -> list[object]:
    """Do the same from connections of their own, all at once; errors are results too."""
    start = Barrier(RACERS)

    def run(_: int) -> object:
        with place.open_books() as books:
            start.wait()
            try:
                return do(books)
            except Refused as error:
                return type(error)

    with ThreadPoolExecutor(RACERS) as pool:
        return list(pool.map(run, range(RACERS)))


def credit(books: Books) -> EntryView:
    return books.entries.post("a", "credit", 7, note="n", idempotency_key="k")


def test_what_is_repeated_is_done_once(place: Place) -> None:
    """A credit with an idempotency key: all answers are one."""
    place.add_account(credit_nano=0)
    results = race(place, credit)
    assert results == results[:1] * RACERS
    assert place.read_balance() == 7


def test_the_last_operator_who_can_act_stays_one(place: Place) -> None:
    """One is left when all demote each other at once."""
    names = [f"op{number}" for number in range(3)]
    with place.open_books() as books:
        for name in names:
            books.accounts.create(name, credit_nano=0, operator=True)
        books.accounts.suspend("op2")

    def demote(books: Books) -> object:
        return [books.accounts.edit(name, {}, operator=False) for name in names[:2]]

    assert set(map(str, race(place, demote))) == {str(Conflict)}
    with place.open_books() as books:
        assert [one.operator for one in books.accounts.read_all()] == [False, True, True]


async def test_a_call_of_any_account_is_found_with_its_receipt(place: Place) -> None:
    """Those of another account than the one that is asked for are unknown."""
    other = place.add_account("b")
    async with place.serve_key() as (ledger, key):
        await ledger.settle(ledger.hold(key, admission(id_="req_1")), settlement(77))
        told = await read_receipt(ledger, "req_1")
    with place.open_books() as books:
        books.entries.post("a", "correction", 7, note="too dear", request_id="req_1")
        detail = books.receipts.read_detail("req_1", account_id=books.accounts.find_id("a"))
        assert (detail.account, detail.key.id) == ("a", key.id)
        assert replace(detail.receipt, corrections=()) == told
        assert [one.note for one in detail.receipt.corrections] == ["too dear"]
        assert books.receipts.read_detail("req_1") == detail
        for wanted, account_id in (("req_1", other), ("req_2", None)):
            with pytest.raises(NotFound, match="no call of that request id"):
                books.receipts.read_detail(wanted, account_id=account_id)
