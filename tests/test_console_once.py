"""Routes that move money: however often a request is repeated, it is done once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from ledger_kit import assert_sound, query
from visit_kit import make_post, open_desk

from gateway import accounts
from gateway.accounts import Books, Conflict
from gateway.console.desk import Desk
from gateway.console.once import once
from gateway.console.refusals import ConsoleError
from gateway.console.state import Answer, Visit
from gateway.ledger.records import AccountView
from gateway.views import describe_entry

PATH = "/console/api/accounts/1/credit"
BODY = b'{"amount": "5"}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


@pytest.fixture
def account(path: Path) -> AccountView:
    with accounts.open_books(path, create=True) as books:
        accounts.add_account(books, "other")
        return accounts.add_account(books, "own")


@pytest.fixture
async def desk(path: Path, account: AccountView) -> AsyncIterator[Desk]:
    assert account.name == "own"
    async with open_desk(path) as desk:
        yield desk
    assert_sound(path)


def credit(books: Books, visit: Visit) -> Answer:
    amount_nano = visit.fields.need_amount_nano("amount")
    entry = accounts.credit(books, visit.account.name, amount_nano, note="once")
    return Answer({"entry": describe_entry(entry), "secret": "s3cret"}, 201, kept=None)


def post(
    desk: Desk, account: AccountView, key: str | None, *, body: bytes = BODY, path: str = PATH
) -> Visit:
    headers = {} if key is None else {"Idempotency-Key": key}
    return make_post(desk, account, path, headers, body)


def read(answer: object) -> dict[str, Any]:
    """The body as it leaves, be it new or kept."""
    assert isinstance(answer, Answer)
    body = answer.body if isinstance(answer.body, bytes) else orjson.dumps(answer.body)
    found: dict[str, Any] = orjson.loads(body)
    return found


def headers_of(answer: object) -> Mapping[str, str]:
    assert isinstance(answer, Answer)
    assert answer.status == 201
    return answer.headers


def credits(path: Path) -> int:  # noqa: A001 - what they are
    return len(query(path, "SELECT id FROM entries WHERE kind = 'credit'"))


async def refusal(visit: Visit) -> tuple[int, str, str | None]:
    with pytest.raises(ConsoleError) as caught:
        await once(credit)(visit)
    return caught.value.status, caught.value.code, caught.value.field


async def test_a_repeated_request_gets_the_first_reply(
    desk: Desk, account: AccountView, path: Path
) -> None:
    first = await once(credit)(post(desk, account, "k"))
    second = await once(credit)(post(desk, account, "k"))
    assert read(first) == read(second)
    assert headers_of(first) == {}
    assert headers_of(second) == {"Idempotent-Replay": "true"}
    assert credits(path) == 1


async def test_a_hundred_at_once_have_one_effect(
    desk: Desk, account: AccountView, path: Path
) -> None:
    """By two connections on two threads, as if two processes served the console."""
    async with open_desk(path) as second:
        visits = [post((desk, second)[n % 2], account, "race") for n in range(100)]
        answers = await asyncio.gather(*(once(credit)(visit) for visit in visits))
    replayed = [answer for answer in answers if headers_of(answer)]
    assert len(replayed) == 99
    assert len({orjson.dumps(read(answer)) for answer in answers}) == 1
    assert {read(answer)["entry"]["amount"] for answer in answers} == {"5.00"}
    assert credits(path) == 1
    assert query(path, "SELECT count(*) FROM events WHERE action = 'account.credit'") == [(1,)]
    assert query(path, "SELECT balance_nano FROM accounts WHERE name = 'own'") == [(5 * 10**9,)]


async def test_another_request_under_the_same_key_is_a_conflict(
    desk: Desk, account: AccountView, path: Path
) -> None:
    await once(credit)(post(desk, account, "k"))
    other = post(desk, account, "k", body=b'{"amount": "6"}')
    assert await refusal(other) == (409, "idempotency_conflict", None)
    assert credits(path) == 1


async def test_keys_are_of_one_account_and_one_route(
    desk: Desk, account: AccountView, path: Path
) -> None:
    with accounts.open_books(path) as books:
        other = books.account("other")
    for visit in (
        post(desk, account, "k"),
        post(desk, account, "K"),
        post(desk, account, "k", path="/console/api/accounts/2/credit"),
        post(desk, other, "k"),
    ):
        assert headers_of(await once(credit)(visit)) == {}
    assert credits(path) == 4


async def test_what_fails_leaves_nothing_and_may_be_tried_again(
    desk: Desk, account: AccountView, path: Path
) -> None:
    """Not even what was done before it failed."""

    def fail(books: Books, visit: Visit) -> Answer:
        credit(books, visit)
        raise ConsoleError(409, "no", "Not today.")

    for _ in range(2):
        with pytest.raises(ConsoleError, match="Not today"):
            await once(fail)(post(desk, account, "k"))
    assert credits(path) == 0
    for table in ("replays", "entries"):
        assert query(path, f"SELECT count(*) FROM {table}") == [(0,)]
    assert query(path, "SELECT count(*) FROM events WHERE action = 'account.credit'") == [(0,)]
    assert headers_of(await once(credit)(post(desk, account, "k"))) == {}
    assert credits(path) == 1


async def test_a_conflict_of_the_verb_is_its_own(desk: Desk, account: AccountView) -> None:
    """Nothing was sent before: that would be the wrong thing to say."""

    def add(books: Books, visit: Visit) -> Answer:
        accounts.add_account(books, visit.account.name)
        raise AssertionError

    with pytest.raises(Conflict, match="'own' already"):
        await once(add)(post(desk, account, "k"))


async def test_a_secret_is_not_kept(desk: Desk, account: AccountView, path: Path) -> None:
    def make(books: Books, visit: Visit) -> Answer:
        entry = accounts.credit(books, visit.account.name, 1, note="once")
        return Answer({"id": entry.id, "secret": "s3cret"}, 201, kept={"id": entry.id})

    def refuse(answer: Answer) -> Answer:
        raise ConsoleError(409, "already_done", f"Entry {read(answer)['id']} was made.")

    fresh = await once(make, refuse)(post(desk, account, "k"))
    assert read(fresh)["secret"] == "s3cret"
    with pytest.raises(ConsoleError, match=r"Entry \d+ was made") as caught:
        await once(make, refuse)(post(desk, account, "k"))
    assert caught.value.code == "already_done"
    assert credits(path) == 1
    (row,) = query(path, "SELECT reply FROM replays")
    assert "s3cret" not in str(row[0])


@pytest.mark.parametrize("key", [None, ""])
async def test_a_key_is_needed(desk: Desk, account: AccountView, key: str | None) -> None:
    assert await refusal(post(desk, account, key)) == (400, "idempotency_key_missing", None)


@pytest.mark.parametrize("key", ["x" * 201, "ü", "a\tb", "\x7f"])
async def test_a_key_is_short_and_printable(desk: Desk, account: AccountView, key: str) -> None:
    assert (await refusal(post(desk, account, key)))[:2] == (400, "invalid_field")
    assert headers_of(await once(credit)(post(desk, account, "x" * 200))) == {}
