"""The operator's books beside others who change them, and beside a server; `sql/played` has the rest."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from gateway.ledger.records import Conflict, EntryView, Refused
from gateway.ledger.sql.books import Books
from tests.ledger.contract.kit import Place

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
