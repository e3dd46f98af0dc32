"""The operator's books: each change once, noted, and readable by the part it belongs to."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Final

import pytest

from gateway.ledger.alert_records import UpstreamFailure
from gateway.ledger.call_records import CallFilter, Spent
from gateway.ledger.key_records import KeyTerms, Terms
from gateway.ledger.records import (
    CodeTerms,
    Conflict,
    EntryView,
    InvalidCode,
    NotFound,
    Refused,
    RepeatableRequest,
    StoredReply,
    StoredSecret,
)
from gateway.ledger.signin_records import Opening
from gateway.ledger.sql.accounts import MAX_DAYS
from gateway.ledger.sql.books import Books
from gateway.times import DAY_MS
from tests.ledger.contract.kit import (
    NOW_MS,
    Place,
    admission,
    charge,
    create_key,
    find_key,
    key_id_of,
    read_receipt,
    settlement,
)

RACERS = 20
CODE = b"c" * 32


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


def redeem(books: Books) -> object:
    return books.codes.redeem("a", CODE)


def run_once(books: Books) -> StoredReply:
    def do() -> StoredReply:
        books.entries.post("a", "credit", 7, note="")
        return StoredReply(201, b"reply")

    kept, _ = books.replays.run_once(RepeatableRequest("1", "/route", "key", b"r" * 32), do)
    return kept


@pytest.mark.parametrize(
    ("do", "losers_see"), [(credit, None), (redeem, InvalidCode), (run_once, None)]
)
def test_what_is_repeated_is_done_once(
    place: Place, do: Callable[[Books], object], losers_see: type[Refused] | None
) -> None:
    """A credit with an idempotency key, a code, a request of a console: all answers are one."""
    place.add_account(credit_nano=0)
    with place.open_books() as books:
        new = StoredSecret("code_9", CODE, "BBBB")
        books.codes.add([new], CodeTerms("batch_1", 7, NOW_MS + 10, "course"), NOW_MS)
    results = race(place, do)
    won = [one for one in results if one is not losers_see]
    assert won == won[:1] * (1 if losers_see else RACERS)
    assert place.read_balance() == 7


def test_an_account_is_edited_and_the_event_counts_its_models(place: Place) -> None:
    """Events are kept for ever, so they do not repeat what may be long."""
    place.add_account()
    with place.open_books() as books:
        made = books.accounts.create("b", credit_nano=0, operator=False, terms=Terms(("m",), 7))
        assert books.accounts.edit("a", {"models": ("m", "n"), "concurrency": 0}).terms == Terms(
            ("m", "n"), None, None, 0
        )
        assert (
            books.events.read_page("edit", None, 1)[0].detail == "2 models; concurrency unlimited"
        )
        books.accounts.edit("a", {"models": None, "requests_per_minute": None})
        books.keys.edit(create_key_id(books), {"models": ("m",)})
        key, account, *_ = books.events.read_page("edit", None, 2)
        assert (key.detail, account.detail) == (
            "1 model",
            "all models; requests_per_minute default",
        )
        assert books.accounts.read("a").terms == Terms(concurrency=0)
        assert books.accounts.read("b").terms == made.terms == Terms(("m",), 7)


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
        with pytest.raises(Conflict, match="'op1' is the last operator") as refused:
            books.accounts.edit("op1", {"concurrency": 1}, operator=False)
        assert (refused.value.code, books.accounts.read("op1").terms) == ("last_operator", Terms())
        books.accounts.resume("op2")
        assert not books.accounts.edit("op1", {}, operator=False).operator


def test_a_new_role_ends_sessions_and_links(place: Place) -> None:
    """Else a session that ended as an operator's would be a holder's, who may pause for longer."""
    place.add_account("b")
    place.add_account()
    with place.open_books() as books:
        for operator in (True, False):
            sign_in(books, "a")
            books.signins.set_link("a", b"l" * 32, NOW_MS + 1000)
            books.accounts.edit("a", {"concurrency": 1})
            assert len(books.signins.read_sessions(books.accounts.find_id("a"))) == 1
            if operator:
                books.accounts.edit("b", {}, operator=True)
            books.accounts.edit("a", {}, operator=operator)
            assert books.signins.read_sessions(books.accounts.find_id("a")) == []
            assert books.signins.open_by_link(b"l" * 32, make_opening()) is None
        sign_in(books, "a")
        sign_in(books, "a")
        sign_in(books, "b")
        books.signins.set_link("a", b"l" * 32, NOW_MS + 1000)
        assert books.signins.end_all_sessions("a") == 2
        assert books.signins.open_by_link(b"l" * 32, make_opening()) is None
        assert len(books.signins.read_sessions(books.accounts.find_id("b"))) == 1
        assert books.events.read_page("session.end", None, 1)[0].detail == "2 sessions"


def sign_in(books: Books, account: str) -> None:
    books.signins.set_link(account, b"s" * 32, NOW_MS + 1000)
    assert books.signins.open_by_link(b"s" * 32, make_opening()) is not None


def make_opening() -> Opening:
    digest = os.urandom(32)
    return Opening(f"ses_{digest.hex()[:16]}", digest, "Firefox", "192.0.2.7")


def create_key_id(books: Books) -> str:
    return key_id_of(create_key(books, "a"))


def test_the_key_of_another_account_is_unknown(place: Place) -> None:
    place.add_account()
    other = place.add_account("b")
    digest = place.add_key()
    key_id = key_id_of(digest)
    with place.open_books() as books:
        deeds: list[Callable[[], object]] = [
            lambda: books.keys.read(key_id, account_id=other),
            lambda: books.keys.edit(key_id, {"name": "x"}, account_id=other),
            lambda: books.keys.revoke(key_id, account_id=other),
            lambda: books.keys.read("key_x"),
        ]
        for deed in deeds:
            with pytest.raises(NotFound):
                deed()
        assert books.keys.read(key_id).terms == KeyTerms()


def test_accounts_are_found_by_id_name_and_part_of_the_name(place: Place) -> None:
    ids = {name: place.add_account(name, credit_nano=5) for name in ("anna", "Ännchen", "bob")}
    with place.open_books() as books:
        assert [one.name for one in books.accounts.read_all()] == ["anna", "bob", "Ännchen"]
        assert books.accounts.find_names("ÄNN") == [("Ännchen", ids["Ännchen"])]
        assert books.accounts.find_id("bob") == ids["bob"]
        assert books.accounts.find_name(ids["bob"]) == "bob"
        with pytest.raises(NotFound):
            books.accounts.read("bo")
        with pytest.raises(Conflict):
            books.accounts.create("bob", credit_nano=0, operator=False)


async def test_accounts_are_ranked_by_what_they_spent_in_a_week(place: Place) -> None:
    digest = place.seed(credit_nano=10**6)
    async with place.serve() as ledger:
        for cost_nano in (5, 50):
            await charge(ledger, find_key(ledger, digest), cost_nano)
    today = NOW_MS // DAY_MS
    with place.open_books() as books:
        account_id = books.accounts.find_id("a")
        for days, spent_nano in ((6, 55), (7, 0)):
            assert books.accounts.rank("spent_7d", today=today + days) == {account_id: spent_nano}
        assert books.accounts.rank("balance", today=today) == {account_id: 10**6 - 55}
        assert books.accounts.rank("least", today=today) == {account_id: 55 - 10**6}
        assert books.accounts.rank("lasts", today=today) == {account_id: -((10**6 - 55) * 7 // 55)}
        assert books.accounts.rank("lasts", today=today + 7) == {account_id: -MAX_DAYS}
        assert books.accounts.sum_balances() == 10**6 - 55
        assert books.accounts.read_standing(account_id, today=today).spent == Spent(55, 55, 55)


FAILURES: Final = (
    UpstreamFailure(NOW_MS, "req_1", 401, "status 401: the key is refused", "https://api/v1/chat"),
    UpstreamFailure(NOW_MS, "req_1", None, "connect: Connection refused", "https://spare/v1/chat"),
    UpstreamFailure(
        NOW_MS + 1, "req_1", 400, "status 400", "https://api/v1/chat", "t", "c", "p", rejected=True
    ),
)


async def test_a_call_of_any_account_is_found_with_its_receipt(place: Place) -> None:
    """Those of another account than the one that is asked for are unknown."""
    digest, other = place.seed(), place.add_account("b")
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        await ledger.settle(ledger.hold(key, admission(id_="req_1")), settlement(77))
        told = await read_receipt(ledger, "req_1")
        for failure in (*FAILURES, replace(FAILURES[0], request_id="req_3")):
            ledger.note_upstream_call("p", "m", failure)
    with place.open_books() as books:
        books.entries.post("a", "correction", 7, note="too dear", request_id="req_1")
        detail = books.calls.read_detail("req_1", account_id=books.accounts.find_id("a"))
        assert (detail.account, detail.key.id) == ("a", key_id_of(digest))
        assert replace(detail.receipt, corrections=()) == told
        assert [one.note for one in detail.receipt.corrections] == ["too dear"]
        assert detail.failures == FAILURES
        assert books.calls.read_detail("req_1") == detail
        (call,) = books.calls.read_page(CallFilter(), None, 5)
        assert books.observations.read_last_failures([call]) == {"req_1": FAILURES[-1]}
        assert books.observations.read_last_failures([]) == {}
        assert (call.account, call.request_id) == ("a", "req_1")
        for slower_than_ms, count in ((-1, 1), (call.total_ms, 0)):
            chosen = CallFilter(slower_than_ms=slower_than_ms)
            assert books.calls.count(chosen) == count
            assert len(books.calls.read_page(chosen, None, 5)) == count
            assert books.calls.read_slowest(chosen, None, 5) == [call][:count]
        assert books.calls.read_slowest(CallFilter(), None, 5) == [call]
        for account_id in (None, books.accounts.find_id("a")):
            chosen = CallFilter(account_id)
            starts = [books.calls.find_start_ms(chosen, None, count) for count in (1, 2)]
            assert starts == [call.started_ms, None]
            assert books.calls.find_start_ms(chosen, call.request_id, 1) is None
        for wanted, account_id in (("req_1", other), ("req_2", None)):
            with pytest.raises(NotFound, match="no call of that request id"):
                books.calls.read_detail(wanted, account_id=account_id)


async def test_a_request_is_given_back_in_parts_and_never_more(place: Place) -> None:
    """The same amount once; the rest by default, once; beyond that only if forced. Each is an event."""
    digest = place.seed()
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        for id_, cost_nano in (("req_r", 100), ("req_0", 0)):
            await ledger.settle(ledger.hold(key, admission(id_=id_)), settlement(cost_nano))
    with place.open_books() as books:
        start_nano = books.accounts.read("a").balance_nano
        part = books.entries.refund("req_r", 30, note="n")
        assert (part.kind, part.amount_nano, part.request_id) == ("correction", 30, "req_r")
        assert books.entries.refund("req_r", 30, note="again").is_repeated
        with pytest.raises(Refused, match=r"of which 0\.00000007 is left"):
            books.entries.refund("req_r", 71, note="n")
        rest = books.entries.refund("req_r", note="n")
        assert rest.amount_nano == 70
        for amount_nano in (1, None):
            with pytest.raises(Refused, match=r"of which 0\.00 is left"):
                books.entries.refund("req_r", amount_nano, note="n")
        assert books.entries.refund("req_r", 5, note="n", force=True).amount_nano == 5
        assert books.accounts.read("a").balance_nano == start_nano + 105
        for wrong in (0, -1):
            with pytest.raises(Refused):
                books.entries.refund("req_r", wrong, note="n", force=True)
        with pytest.raises(Refused):
            books.entries.refund("req_r", 2, note="")
        with pytest.raises(Refused, match="cost nothing"):
            books.entries.refund("req_0", note="n")
        with pytest.raises(NotFound):
            books.entries.refund("req_none", note="n")
        noted = books.events.read_page("req_r", None, 9)
        assert {one.action for one in noted} == {"account.correct"}
        assert len(noted) == 3


async def test_a_whole_refund_is_repeated_without_an_amount(place: Place) -> None:
    digest = place.seed()
    async with place.serve() as ledger:
        hold = ledger.hold(find_key(ledger, digest), admission(id_="req_r"))
        await ledger.settle(hold, settlement(100))
    with place.open_books() as books:
        first = books.entries.refund("req_r", note="n")
        again = books.entries.refund("req_r", note="n")
        assert (again.id, again.is_repeated, again.amount_nano) == (first.id, True, 100)
