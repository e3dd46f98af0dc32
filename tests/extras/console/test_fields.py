"""The fields of bodies and queries, and requests that are sent again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.admin import views
from gateway.extras.console.errors import ConsoleError
from gateway.extras.console.fields import Fields
from gateway.extras.console.routes import Answer, ConsoleRequest, run_once
from gateway.extras.console.state import BooksThread
from gateway.ledger.opening import open_books
from gateway.ledger.records import AccountView, Conflict
from gateway.ledger.sql.books import Books
from tests.extras.console.handler_kit import make_post, open_books_thread
from tests.ledger.kit import assert_sound, query


def refusal(read: Callable[[], object]) -> tuple[int, str, str | None]:
    with pytest.raises(ConsoleError) as caught:
        read()
    assert caught.value.message[0].isupper() or caught.value.message[0] == "'"
    assert caught.value.message.endswith((".", "?"))
    return caught.value.status, caught.value.code, caught.value.field


def test_depth_is_refused() -> None:
    body = b'{"a":' * 60_000 + b"1" + b"}" * 60_000
    assert refusal(lambda: Fields(body)) == (400, "invalid_json", None)


def test_a_field_that_nobody_asked_for_is_refused() -> None:
    body = Fields(b'{"a": 1, "b": 2}')
    body.integer("a", 0, 10)
    assert refusal(body.done) == (400, "unknown_field", "b")
    body.has("b")
    body.done()


PATH = "/console/api/accounts/1/credit"
BODY = b'{"amount": "5"}'


@dataclass(frozen=True)
class Place:
    path: Path
    thread: BooksThread
    account: AccountView
    other: AccountView

    def post(self, key: str | None, **changed: Any) -> ConsoleRequest:
        sent: dict[str, Any] = {
            "thread": self.thread,
            "account": self.account,
            "path": PATH,
            "body": BODY,
        }
        sent |= changed
        headers = {} if key is None else {"Idempotency-Key": key}
        return make_post(sent["thread"], sent["account"], sent["path"], headers, sent["body"])

    async def send(self, key: str | None, **changed: Any) -> tuple[bool, Any]:
        """Return whether the credit is repeated, and the body as it is sent."""
        return read(await run_once(credit, None, self.post(key, **changed)))

    async def refusal(self, key: str | None, **changed: Any) -> tuple[int, str]:
        with pytest.raises(ConsoleError) as caught:
            await self.send(key, **changed)
        return caught.value.status, caught.value.code

    def count_credits(self) -> int:
        return len(query(self.path, "SELECT id FROM entries WHERE kind = 'credit'"))


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    path = tmp_path / "gateway.db"
    with open_books(path, create=True) as books:
        own, other = [books.accounts.create(name) for name in ("own", "other")]
    async with open_books_thread(path) as thread:
        yield Place(path, thread, own, other)
    assert_sound(path)


def credit(books: Books, request: ConsoleRequest) -> Answer:
    amount_nano = request.fields.need_amount_nano("amount")
    entry = books.entries.credit(request.account.name, amount_nano, note="once")
    return Answer({"entry": views.ENTRY.describe(entry)}, 201)


def read(answer: Answer) -> tuple[bool, Any]:
    assert answer.status == 201
    body = answer.body if isinstance(answer.body, bytes) else orjson.dumps(answer.body)
    assert answer.headers in ({}, {"Idempotent-Replay": "true"})
    return bool(answer.headers), orjson.loads(body)


async def test_a_key_is_of_one_account_route_and_body(place: Place) -> None:
    for key, changed in (
        ("k", {}),
        ("K", {}),
        ("x" * 200, {}),
        ("k", {"path": "/console/api/accounts/2/credit"}),
        ("k", {"account": place.other}),
    ):
        assert (await place.send(key, **changed))[0] is False
    assert place.count_credits() == 5
    refused = await place.refusal("k", body=b'{"amount": "6"}')
    assert refused == (409, "idempotency_conflict")
    for absent in (None, ""):
        assert await place.refusal(absent) == (400, "idempotency_key_missing")
    for wrong in ("x" * 201, "ü", "a\tb", "\x7f"):
        assert await place.refusal(wrong) == (400, "invalid_field")
    assert place.count_credits() == 5


async def test_what_fails_leaves_nothing_and_may_be_tried_again(place: Place) -> None:
    """A failed request stores nothing, not even changes made before it failed."""

    def fail(books: Books, request: ConsoleRequest) -> Answer:
        credit(books, request)
        raise ConsoleError(409, "no", "Not today.")

    def add(books: Books, request: ConsoleRequest) -> Answer:
        books.accounts.create(request.account.name)
        raise AssertionError

    for _ in range(2):
        with pytest.raises(ConsoleError, match="Not today"):
            await run_once(fail, None, place.post("k"))
    for table in ("replays", "entries", "events WHERE action = 'account.credit'"):
        assert query(place.path, f"SELECT count(*) FROM {table}") == [(0,)]
    with pytest.raises(Conflict, match="'own' already"):  # its own, not that of a repeated request
        await run_once(add, None, place.post("k"))
    assert (await place.send("k"))[0] is False
    assert place.count_credits() == 1


async def test_a_secret_is_not_kept(place: Place) -> None:
    def make(books: Books, request: ConsoleRequest) -> Answer:
        entry = books.entries.credit(request.account.name, 1, note="once")
        return Answer({"id": entry.id, "secret": "s3cret"}, 201, kept={"id": entry.id})

    told = "Entry {id} was made."
    assert read(await run_once(make, told, place.post("k")))[1]["secret"] == "s3cret"
    with pytest.raises(ConsoleError, match=r"Entry \d+ was made") as caught:
        await run_once(make, told, place.post("k"))
    assert (caught.value.code, caught.value.more) == ("already_done", {"id": 1})
    assert place.count_credits() == 1
    (row,) = query(place.path, "SELECT reply FROM replays")
    assert "s3cret" not in str(row[0])
