"""Idempotent routes: however often a request is repeated, it has one effect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.admin import accounts, views
from gateway.console.refusals import ConsoleError
from gateway.console.routes import Answer, ConsoleRequest, run_once
from gateway.console.state import BooksThread
from gateway.ledger.records import AccountView, Conflict
from gateway.ledger.sql.books.books import Books
from tests.console.handler_kit import make_post, open_books_thread
from tests.ledger.kit import assert_sound, query

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
async def books_thread(path: Path, account: AccountView) -> AsyncIterator[BooksThread]:
    assert account.name == "own"
    async with open_books_thread(path) as books_thread:
        yield books_thread
    assert_sound(path)


def credit(books: Books, request: ConsoleRequest) -> Answer:
    amount_nano = request.fields.need_amount_nano("amount")
    entry = accounts.credit(books, request.account.name, amount_nano, note="once")
    return Answer({"entry": views.ENTRY.describe(entry), "secret": "s3cret"}, 201, kept=None)


def post(
    books_thread: BooksThread,
    account: AccountView,
    key: str | None,
    *,
    body: bytes = BODY,
    path: str = PATH,
) -> ConsoleRequest:
    headers = {} if key is None else {"Idempotency-Key": key}
    return make_post(books_thread, account, path, headers, body)


def read(answer: object) -> dict[str, Any]:
    """Return the body as it is sent, new or stored."""
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


async def refusal(request: ConsoleRequest) -> tuple[int, str, str | None]:
    with pytest.raises(ConsoleError) as caught:
        await run_once(credit, None, request)
    return caught.value.status, caught.value.code, caught.value.field


async def test_a_repeated_request_gets_the_first_reply(
    books_thread: BooksThread, account: AccountView, path: Path
) -> None:
    first = await run_once(credit, None, post(books_thread, account, "k"))
    second = await run_once(credit, None, post(books_thread, account, "k"))
    assert read(first) == read(second)
    assert headers_of(first) == {}
    assert headers_of(second) == {"Idempotent-Replay": "true"}
    assert credits(path) == 1


async def test_a_hundred_at_once_have_one_effect(
    books_thread: BooksThread, account: AccountView, path: Path
) -> None:
    """Requests through two connections in two threads, like two processes serving the console."""
    async with open_books_thread(path) as second:
        requests = [post((books_thread, second)[n % 2], account, "race") for n in range(100)]
        answers = await asyncio.gather(*(run_once(credit, None, request) for request in requests))
    replayed = [answer for answer in answers if headers_of(answer)]
    assert len(replayed) == 99
    assert len({orjson.dumps(read(answer)) for answer in answers}) == 1
    assert {read(answer)["entry"]["amount"] for answer in answers} == {"5.00"}
    assert credits(path) == 1
    assert query(path, "SELECT count(*) FROM events WHERE action = 'account.credit'") == [(1,)]
    assert query(path, "SELECT balance_nano FROM accounts WHERE name = 'own'") == [(5 * 10**9,)]


async def test_another_request_under_the_same_key_is_a_conflict(
    books_thread: BooksThread, account: AccountView, path: Path
) -> None:
    await run_once(credit, None, post(books_thread, account, "k"))
    other = post(books_thread, account, "k", body=b'{"amount": "6"}')
    assert await refusal(other) == (409, "idempotency_conflict", None)
    assert credits(path) == 1


async def test_keys_are_of_one_account_and_one_route(
    books_thread: BooksThread, account: AccountView, path: Path
) -> None:
    with accounts.open_books(path) as books:
        other = books.accounts.read("other")
    for request in (
        post(books_thread, account, "k"),
        post(books_thread, account, "K"),
        post(books_thread, account, "k", path="/console/api/accounts/2/credit"),
        post(books_thread, other, "k"),
    ):
        assert headers_of(await run_once(credit, None, request)) == {}
    assert credits(path) == 4


async def test_what_fails_leaves_nothing_and_may_be_tried_again(
    books_thread: BooksThread, account: AccountView, path: Path
) -> None:
    """A failed request stores nothing, not even changes made before it failed."""

    def fail(books: Books, request: ConsoleRequest) -> Answer:
        credit(books, request)
        raise ConsoleError(409, "no", "Not today.")

    for _ in range(2):
        with pytest.raises(ConsoleError, match="Not today"):
            await run_once(fail, None, post(books_thread, account, "k"))
    assert credits(path) == 0
    for table in ("replays", "entries"):
        assert query(path, f"SELECT count(*) FROM {table}") == [(0,)]
    assert query(path, "SELECT count(*) FROM events WHERE action = 'account.credit'") == [(0,)]
    assert headers_of(await run_once(credit, None, post(books_thread, account, "k"))) == {}
    assert credits(path) == 1


async def test_a_conflict_of_the_verb_is_its_own(
    books_thread: BooksThread, account: AccountView
) -> None:
    """A conflict inside the function is reported as itself, not as a repeated request."""

    def add(books: Books, request: ConsoleRequest) -> Answer:
        accounts.add_account(books, request.account.name)
        raise AssertionError

    with pytest.raises(Conflict, match="'own' already"):
        await run_once(add, None, post(books_thread, account, "k"))


async def test_a_secret_is_not_kept(
    books_thread: BooksThread, account: AccountView, path: Path
) -> None:
    def make(books: Books, request: ConsoleRequest) -> Answer:
        entry = accounts.credit(books, request.account.name, 1, note="once")
        return Answer({"id": entry.id, "secret": "s3cret"}, 201, kept={"id": entry.id})

    fresh = await run_once(make, "Entry {id} was made.", post(books_thread, account, "k"))
    assert read(fresh)["secret"] == "s3cret"
    with pytest.raises(ConsoleError, match=r"Entry \d+ was made") as caught:
        await run_once(make, "Entry {id} was made.", post(books_thread, account, "k"))
    assert caught.value.code == "already_done"
    assert credits(path) == 1
    (row,) = query(path, "SELECT reply FROM replays")
    assert "s3cret" not in str(row[0])


@pytest.mark.parametrize("key", [None, ""])
async def test_a_key_is_needed(
    books_thread: BooksThread, account: AccountView, key: str | None
) -> None:
    assert await refusal(post(books_thread, account, key)) == (400, "idempotency_key_missing", None)


@pytest.mark.parametrize("key", ["x" * 201, "ü", "a\tb", "\x7f"])
async def test_a_key_is_short_and_printable(
    books_thread: BooksThread, account: AccountView, key: str
) -> None:
    assert (await refusal(post(books_thread, account, key)))[:2] == (400, "invalid_field")
    assert headers_of(await run_once(credit, None, post(books_thread, account, "x" * 200))) == {}
