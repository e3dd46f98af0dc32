"""A code that many redeem at once is redeemed by one of them, in each database."""

from __future__ import annotations

from gateway.extras.codes.book import CodeBook
from gateway.extras.codes.records import CodeTerms, InvalidCode
from gateway.ledger.records import StoredSecret
from gateway.ledger.sql.books import Books
from tests.ledger.contract.conftest import place, pytest_generate_tests  # noqa: F401 - for the fixture
from tests.ledger.contract.kit import NOW_MS, Place
from tests.ledger.contract.test_books import race

CODE = b"c" * 32


def redeem(books: Books) -> object:
    return CodeBook(books).redeem("a", CODE)


def test_a_code_is_redeemed_once(place: Place) -> None:  # noqa: F811 - the fixture
    place.add_account(credit_nano=0)
    with place.open_books() as books:
        new = StoredSecret("code_9", CODE, "BBBB")
        CodeBook(books).add([new], CodeTerms("batch_1", 7, NOW_MS + 10, "course"), NOW_MS)
    (won,) = (one for one in race(place, redeem) if one is not InvalidCode)
    assert not isinstance(won, type)
    assert place.read_balance() == 7
