"""Events: searched literally, paged from the latest, and the last of an action."""

from __future__ import annotations

from gateway.ledger.records import SYSTEM, Actor
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.sql.books.conftest import Clock
from tests.ledger.sql.books.places import AnyBooks


def test_a_search_is_literal_and_ignores_case(books: AnyBooks) -> None:
    """Wildcards of LIKE and its escape are letters like others."""
    for target in ("50%", "5000", "a_b", "axb", "a\\b"):
        books.note("test", account=None, target=target)
    for part, targets in (("0%", ["50%"]), ("A_B", ["a_b"]), ("\\", ["a\\b"]), ("zz", [])):
        found = books.events.read_page(part, None, 10)
        assert [event.target for event in found] == targets
        assert books.events.count(part) == len(targets)


def test_pages_go_back_from_the_latest(books: AnyBooks) -> None:
    for number in range(4):
        books.note("test", account=None, target=str(number))
    first = books.events.read_page("test", None, 3)
    second = books.events.read_page("test", first[-1].id, 3)
    assert [event.target for event in (*first, *second)] == ["3", "2", "1", "0"]


def test_the_last_of_an_action_is_the_last_that_was_written(books: AnyBooks, clock: Clock) -> None:
    """Also if the clock was set back."""
    assert books.events.find_last("test") is None
    for now_ms in (NOW_MS + 5, NOW_MS + 3):
        clock.now_ms = now_ms
        books.note("test", account=None)
    last = books.events.find_last("test")
    assert last is not None
    assert last.at_ms == NOW_MS + 3
    books.note("other", account=None)
    assert books.events.find_last("test") == last


def test_the_last_of_an_action_from_an_address(books: AnyBooks) -> None:
    for address in ("one", "two"):
        books.actor = Actor("system", address)
        books.note("test", account=None)
    assert books.events.find_last("test", "three") is None
    for address in ("one", "two"):
        last = books.events.find_last("test", address)
        assert last is not None
        assert last.address == address


def test_what_a_process_did_has_its_own_time(books: AnyBooks) -> None:
    books.actor = SYSTEM
    books.events.append("test", target="a file", detail="done", at_ms=7)
    last = books.events.find_last("test")
    assert last is not None
    assert (last.at_ms, last.actor, last.account) == (7, "system", None)
    assert (last.target, last.detail, last.address) == ("a file", "done", None)
