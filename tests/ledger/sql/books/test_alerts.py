"""Alerts in the ledger: raised once, due until delivered, each receiver for itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final, TypeAlias

import pytest

from gateway.ledger.alert_records import KEPT_MS, Alert, Hook
from gateway.ledger.sql.alerts import PER_RECEIVER
from gateway.ledger.sql.database import Connection
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.sql.books.conftest import Clock
from tests.ledger.sql.books.places import AnyBooks, BooksPlace

WAYS: Final = ("webhook", "command")
ALERT: Final = Alert("missing_usage", "p/m", "2026-11-22", "No usage.")
LetIn: TypeAlias = Callable[[Callable[[], object]], None]
HOOK: Final = Hook("https://hooks.example.com/", "whsec_1", None)


def texts(books: AnyBooks) -> list[str]:
    return [json.loads(due.body)["text"] for due in books.alerts.read_due(100)]


def spend(books: AnyBooks, amount_nano: int) -> None:
    books.entries.post("a", "correction", -amount_nano, note="spent")


def test_an_occurrence_is_raised_once_for_each_channel(books: AnyBooks) -> None:
    for _ in range(2):
        books.alerts.raise_all([ALERT], WAYS)
    due = books.alerts.read_due(100)
    assert sorted(one.channel for one in due) == ["command", "webhook"]
    assert len({one.id for one in due}) == 2
    body = json.loads(due[0].body)
    assert body == {
        "id": due[0].id,
        "kind": "missing_usage",
        "state": "raised",
        "subject": "p/m",
        "account": None,
        "text": "No usage.",
        "at": "2023-11-14T22:13:20.000Z",
    }


def test_it_is_due_until_it_is_delivered(books: AnyBooks, clock: Clock) -> None:
    books.alerts.raise_all([ALERT], ["webhook"])
    (due,) = books.alerts.read_due(100)
    books.alerts.note_failure(due.id, "status 500", NOW_MS + 10)
    assert books.alerts.read_due(100) == []
    clock.now_ms += 10
    (again,) = books.alerts.read_due(100)
    assert (again.id, again.attempts, again.body) == (due.id, 1, due.body)
    books.alerts.note_delivered(due.id)
    assert books.alerts.read_due(100) == []
    (seen,) = books.alerts.read_latest(5)
    assert (seen.attempts, seen.delivered_ms, seen.reason) == (2, NOW_MS + 10, None)


def test_what_is_given_up_is_kept_with_its_reason(books: AnyBooks, clock: Clock) -> None:
    books.alerts.raise_all([ALERT], ["webhook"])
    (due,) = books.alerts.read_due(100)
    books.alerts.note_failure(due.id, "status 500", None)
    clock.now_ms += KEPT_MS
    assert books.alerts.read_due(100) == []
    (seen,) = books.alerts.read_latest(5)
    assert (seen.next_try_ms, seen.delivered_ms, seen.reason) == (None, None, "status 500")
    clock.now_ms += 1
    books.alerts.raise_all([Alert("missing_usage", "p/m", "later", "Later.")], ["webhook"])
    assert [one.text for one in books.alerts.read_latest(5)] == ["Later."]


def test_a_balance_is_told_once_until_it_was_above_again(books: AnyBooks, clock: Clock) -> None:
    def look() -> list[str]:
        clock.now_ms += 1
        books.alerts.follow_balances(500, "USD", ["webhook"])
        return texts(books)

    assert look() == []
    spend(books, 501)
    (told,) = look()
    assert told == "The balance of account 'a' is 0.000000499 USD, below 0.0000005 USD."
    spend(books, 100)
    assert len(look()) == 1
    books.entries.post("a", "credit", 101, note="")
    books.entries.post("a", "credit", 1000, note="")
    assert len(look()) == 1
    spend(books, 1000)
    assert len(look()) == 1
    spend(books, 1)
    assert len(look()) == 2


def test_an_account_that_never_had_anything_has_not_fallen(books: AnyBooks) -> None:
    books.accounts.create("new", credit_nano=0, operator=False)
    spend(books, 1000)
    books.accounts.suspend("a")
    books.alerts.follow_balances(500, "USD", ["webhook"])
    assert texts(books) == []
    books.accounts.resume("a")
    books.alerts.follow_balances(500, "USD", ["webhook"])
    assert len(texts(books)) == 1


@pytest.mark.parametrize(("own_nano", "expected"), [(None, 1), (100, 0), (2000, 1)])
def test_a_holder_has_a_threshold_and_a_webhook_of_his_own(
    books: AnyBooks, own_nano: int | None, expected: int
) -> None:
    account_id = books.accounts.find_id("a")
    books.alerts.set_hook(account_id, Hook(HOOK.url, HOOK.secret, own_nano))
    spend(books, 600)
    books.alerts.follow_balances(500, "USD", ["webhook"])
    due = books.alerts.read_due(100)
    assert [one.channel for one in due] == ["webhook", "holder"][: expected * 2]
    assert [one.hook for one in due if one.channel == "holder"] == [
        Hook(HOOK.url, HOOK.secret, own_nano)
    ] * expected
    assert {json.loads(one.body)["account"] for one in due} <= {"a"}


def test_a_condition_is_told_when_it_begins_and_ends(books: AnyBooks, clock: Clock) -> None:
    def look(failing: dict[str, str], working: dict[str, str]) -> list[str]:
        clock.now_ms += 1
        books.alerts.follow("provider_failing", failing, working, ["webhook"])
        return texts(books)

    assert look({}, {"p": "up"}) == []
    assert look({"p": "down", "q": "down"}, {}) == ["down", "down"]
    assert look({"p": "down still", "q": "down"}, {}) == ["down", "down"]
    assert look({}, {"p": "up"}) == ["down", "down", "up"]
    assert look({"q": "down"}, {}) == ["down", "down", "up", "down"]


def test_what_a_process_cannot_judge_stays_as_it_is(books: AnyBooks, clock: Clock) -> None:
    def look(failing: dict[str, str], working: dict[str, str], *unknown: str) -> list[str]:
        clock.now_ms += 1
        books.alerts.follow("provider_failing", failing, working, ["webhook"], unknown)
        return texts(books)

    assert look({"p": "down"}, {}) == ["down"]
    assert look({}, {}, "p", "never told") == ["down"]
    assert look({"p": "down"}, {}) == ["down"]
    assert look({}, {"p": "up"}) == ["down", "up"]


@pytest.fixture
def other(place: BooksPlace, books: AnyBooks, clock: Clock) -> Iterator[AnyBooks]:
    """The books as another process has them open."""
    del books  # it has made the account
    with place.open(clock) as other:
        yield other


@pytest.fixture
def let_in(books: AnyBooks, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> LetIn:
    """Let another process act after the next look of these books, right before what they change."""
    own = books.changing

    def let_in(act: Callable[[], object]) -> None:
        def change() -> AbstractContextManager[Connection]:
            monkeypatch.setattr(books, "changing", own)
            act()
            clock.now_ms += 1
            return own()

        monkeypatch.setattr(books, "changing", change)

    return let_in


@pytest.mark.parametrize("is_up", [False, True])
def test_of_two_that_see_a_condition_one_tells(
    books: AnyBooks, other: AnyBooks, clock: Clock, let_in: LetIn, *, is_up: bool
) -> None:
    def look(books: AnyBooks, *, is_up: bool) -> None:
        clock.now_ms += 1
        failing, working = ({}, {"p": "up"}) if is_up else ({"p": "down"}, {})
        books.alerts.follow("provider_failing", failing, working, ["webhook"])

    if is_up:
        look(books, is_up=False)
    let_in(lambda: look(other, is_up=is_up))
    look(books, is_up=is_up)
    assert sorted(texts(other)) == ["down", "up"][: 1 + is_up]


def test_of_two_that_see_a_balance_fall_one_tells(
    books: AnyBooks, other: AnyBooks, clock: Clock, let_in: LetIn
) -> None:
    def look(books: AnyBooks) -> None:
        clock.now_ms += 1
        books.alerts.follow_balances(500, "USD", ["webhook"])

    for _ in range(2):
        spend(books, 600)
        let_in(lambda: look(other))
        look(books)
        assert len(texts(books)) == 1
        books.entries.post("a", "credit", 600, note="")
        let_in(lambda: look(other))
        look(books)
        for due in books.alerts.read_due(9):
            books.alerts.note_delivered(due.id)


def test_of_two_that_deliver_one_has_an_alert_until_its_lease_ends(
    books: AnyBooks, other: AnyBooks, clock: Clock
) -> None:
    books.alerts.raise_all([ALERT], WAYS)
    first, second = (one.id for one in other.alerts.read_due(9))
    assert books.alerts.claim([first], NOW_MS + 10) == {first}
    assert other.alerts.claim([first, second], NOW_MS + 20) == {second}
    assert other.alerts.read_due(9) == []
    clock.now_ms += 10
    assert [one.id for one in other.alerts.read_due(9)] == [first]


def test_a_failure_that_is_noted_late_undoes_no_delivery(books: AnyBooks, other: AnyBooks) -> None:
    books.alerts.raise_all([ALERT], ["webhook"])
    (due,) = books.alerts.read_due(9)
    other.alerts.note_delivered(due.id)
    books.alerts.note_failure(due.id, "no answer", NOW_MS)
    assert books.alerts.read_due(9) == []
    (seen,) = books.alerts.read_latest(9)
    assert (seen.attempts, seen.delivered_ms, seen.reason) == (1, NOW_MS, None)


def test_a_receiver_with_many_alerts_holds_no_other_up(books: AnyBooks) -> None:
    books.accounts.create("b", credit_nano=0, operator=False)
    many, few = books.accounts.find_id("a"), books.accounts.find_id("b")
    for account_id in (many, few):
        books.alerts.set_hook(account_id, HOOK)
    for account_id, times in ((many, 9), (few, 1)):
        for _ in range(times):
            books.alerts.raise_test(account_id, ())
    books.alerts.raise_test(None, WAYS)
    due = books.alerts.read_due(100)
    assert [one.account_id for one in due].count(many) == PER_RECEIVER
    assert {one.channel for one in due[:2]} == set(WAYS)
    assert {one.account_id for one in due[2:4]} == {many, few}
    assert len(books.alerts.read_due(3)) == 3


def test_the_lists_of_operator_and_holders_are_apart(books: AnyBooks) -> None:
    account_id = books.accounts.find_id("a")
    books.alerts.set_hook(account_id, HOOK)
    books.alerts.raise_test(account_id, WAYS)
    books.alerts.raise_test(None, WAYS)
    assert [one.channel for one in books.alerts.read_latest(9, account_id)] == ["holder"]
    assert {one.channel for one in books.alerts.read_latest(9)} == set(WAYS)
    assert books.alerts.read_latest(9, account_id + 1) == []


def test_events_do_not_have_the_address(books: AnyBooks) -> None:
    account_id = books.accounts.find_id("a")
    books.alerts.set_hook(account_id, HOOK)
    assert books.alerts.read_hook(account_id) == HOOK
    event, *_ = books.events.read_page(None, None, 1)
    assert (event.action, event.detail) == ("alerts.edit", "with a webhook")
