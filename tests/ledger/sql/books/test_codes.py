"""Codes: the status that lists them, and what voiding and redeeming leave alone."""

from __future__ import annotations

import pytest

from gateway.ledger.records import (
    CodeStatus,
    CodeTerms,
    Conflict,
    InvalidCode,
    NotFound,
    StoredSecret,
)
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.sql.books.conftest import Clock
from tests.ledger.sql.books.places import AnyBooks


@pytest.fixture
def codes(books: AnyBooks) -> dict[CodeStatus, str]:
    """Make one code of each status; return their ids."""
    names: tuple[CodeStatus, ...] = ("open", "redeemed", "void", "expired")
    for number, name in enumerate(names):
        row = StoredSecret(f"code_{number}", name.encode().ljust(32), "AAAA")
        expires_ms = NOW_MS if name == "expired" else NOW_MS + 1
        books.codes.add([row], CodeTerms("batch", 7, expires_ms, "note"), NOW_MS - 5)
    books.codes.redeem("a", b"redeemed".ljust(32))
    books.codes.void("code_2")
    return {name: f"code_{number}" for number, name in enumerate(names)}


def test_each_status_lists_its_own(books: AnyBooks, codes: dict[CodeStatus, str]) -> None:
    for status, code_id in codes.items():
        total, (found,) = books.codes.read_page(status, "batch", None, None)
        assert (total, found.id, found.status(NOW_MS)) == (1, code_id, status)
    assert books.codes.read_page(None, "other", None, None) == (0, [])
    total, page = books.codes.read_page(None, None, "code_3", 2)
    assert (total, [one.id for one in page]) == (4, ["code_2", "code_1"])


def test_only_what_is_open_can_be_redeemed(
    books: AnyBooks, codes: dict[CodeStatus, str], clock: Clock
) -> None:
    for name in codes:
        if name != "open":
            with pytest.raises(InvalidCode):
                books.codes.redeem("a", name.encode().ljust(32))
    clock.now_ms += 1
    with pytest.raises(InvalidCode):
        books.codes.redeem("a", b"open".ljust(32))
    assert books.accounts.read("a").balance_nano == 1007
    entry, *_ = books.entries.read_latest("a", 1)
    assert (entry.kind, entry.amount_nano, entry.note) == ("code", 7, "code ····AAAA")


def test_voiding_spares_what_was_redeemed(
    books: AnyBooks, codes: dict[CodeStatus, str], clock: Clock
) -> None:
    with pytest.raises(Conflict, match="was redeemed by 'a'"):
        books.codes.void(codes["redeemed"])
    clock.now_ms -= 1
    assert books.codes.void(codes["void"]).voided_ms == NOW_MS, "it keeps its time"
    assert books.codes.void_batch("batch") == 2, "the open one, and the one not yet expired"
    assert books.codes.void_batch("batch") == 0
    for void in (books.codes.void, books.codes.void_batch):
        with pytest.raises(NotFound):
            void("unknown")


def test_a_code_for_an_unknown_account_stays_open(
    books: AnyBooks, codes: dict[CodeStatus, str]
) -> None:
    with pytest.raises(NotFound):
        books.codes.redeem("nobody", b"open".ljust(32))
    (found,) = books.codes.read_page("open", None, None, None)[1]
    assert found.id == codes["open"]
