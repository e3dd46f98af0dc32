"""The fields of bodies and queries, and requests that are sent again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.admin import views
from gateway.console.fields import ConsoleError, Fields, Query, parse_moment_ms
from gateway.console.routes import Answer, ConsoleRequest, run_once
from gateway.console.state import BooksThread
from gateway.ledger.opening import open_books
from gateway.ledger.records import AccountView, Conflict
from gateway.ledger.sql.books import Books
from gateway.times import DAY_MS
from tests.console.handler_kit import make_post, open_books_thread
from tests.ledger.kit import assert_sound, query
from tests.support.rows import each_row

NAN = b'{"a": NaN}'


def fields(value: object) -> Fields:
    return Fields(orjson.dumps({"a": value}))


def refusal(read: Callable[[], object]) -> tuple[int, str, str | None]:
    with pytest.raises(ConsoleError) as caught:
        read()
    assert caught.value.message[0].isupper() or caught.value.message[0] == "'"
    assert caught.value.message.endswith((".", "?"))
    return caught.value.status, caught.value.code, caught.value.field


INVALID = (400, "invalid_field", "a")

READERS: dict[str, Callable[[Fields], Any]] = {
    "text": lambda body: body.text("a"),
    "boolean": lambda body: body.boolean("a"),
    "integer": lambda body: body.integer("a", 0, 10),
    "amount": lambda body: body.amount_nano("a"),
    "moment": lambda body: body.moment_ms("a"),
    "texts": lambda body: body.texts("a"),
}
VALUES: dict[str, list[tuple[object, object]]] = {
    "text": [("", ""), (" x ", " x "), ("é", "é")],
    "boolean": [(True, True), (False, False)],
    "integer": [(0, 0), (10, 10)],
    "amount": [
        ("5", 5 * 10**9),
        (" 0.25 ", 250_000_000),
        ("-0.000000001", -1),
        ("1000000000", 10**18),
    ],
    "moment": [
        ("1970-01-02", DAY_MS),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T02:00:00.999999+02:00", 999),
        ("1969-12-31T23:59:59.999Z", -1),
        (" 2026-06-01T12:00:00Z ", 1_780_315_200_000),
    ],
    "texts": [([], ()), (["x", "y"], ("x", "y"))],
}
WRONG: dict[str, list[object]] = {
    "text": [1, True, ["x"], {}],
    "boolean": ["true", 0, 1, []],
    "integer": [-1, 11, 1.0, True, "1", 2**64, []],
    "amount": [5, 0.25, "", "1e3", "0.0000000001", "1,5", "١", "NaN", "1000000001", True],
    "moment": [
        "",
        "tomorrow",
        "2026-06-01T12:00:00",
        "2026-13-01",
        "2026-06-31",
        "0000-01-01",
        "12:00Z",
        "20260601",
        "2026-W23-1",
        "٢٠٢٦-٠٦-٠١",
        1_780_315_200_000,
    ],
    "texts": ["x", [1], [None], {}, [["x"]]],
}


@each_row(
    ("kind", "sent", "expected"),
    [(kind, *pair) for kind, pairs in VALUES.items() for pair in pairs],
)
def test_a_field_is_read_with_its_type(kind: str, sent: object, expected: object) -> None:
    body = fields(sent)
    assert READERS[kind](body) == expected
    body.done()


@each_row(("kind", "sent"), [(kind, value) for kind, values in WRONG.items() for value in values])
def test_what_is_of_another_type_is_refused_by_name(kind: str, sent: object) -> None:
    body = Fields(orjson.dumps({"a": sent}) if sent != 2**64 else b'{"a": 18446744073709551616}')
    assert refusal(lambda: READERS[kind](body)) == INVALID


@each_row("kind", READERS)
@each_row("body", [b"{}", b'{"a": null}', b"", b" \n"])
def test_what_is_absent_or_null_is_none(kind: str, body: bytes) -> None:
    read = Fields(body)
    assert READERS[kind](read) is None
    assert read.has("a") is (b"null" in body)
    read.done()


def test_needed_fields_are_missed_by_name() -> None:
    for sent in (None, ""):
        assert refusal(partial(fields(sent).need_text, "a")) == INVALID
    assert refusal(lambda: fields(None).need_integer("a", 0, 1)) == INVALID
    assert refusal(lambda: fields(None).need_amount_nano("a")) == INVALID
    assert fields("x").need_text("a") == "x"
    assert fields(1).need_integer("a", 0, 1) == 1
    assert fields("1").need_amount_nano("a") == 10**9


@each_row(
    "body",
    [b"[]", b'"x"', b"1", b"null", b"{", b'{"a": 1', NAN, b"\xff", b'{"a": "\\ud800"}', b"x" * 9],
)
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    assert refusal(lambda: Fields(body)) == (400, "invalid_json", None)


def test_depth_is_refused() -> None:
    body = b'{"a":' * 60_000 + b"1" + b"}" * 60_000
    assert refusal(lambda: Fields(body)) == (400, "invalid_json", None)


def test_a_field_that_nobody_asked_for_is_refused() -> None:
    body = Fields(b'{"a": 1, "b": 2}')
    body.integer("a", 0, 10)
    assert refusal(body.done) == (400, "unknown_field", "b")
    body.has("b")
    body.done()


def test_an_unknown_field_is_not_said_back_at_length() -> None:
    status, code, field = refusal(Fields(orjson.dumps({"x" * 60_000: 1})).done)
    assert (status, code, field) == (400, "unknown_field", "x" * 100)


@each_row(("text", "expected"), [(None, 50), ("", 50), ("1", 1), (" 200 ", 200), ("007", 7)])
def test_a_whole_number_in_the_query(text: str | None, expected: int) -> None:
    query = Query({} if text is None else {"a": text})
    assert query.integer("a", 1, 200, 50) == expected


@each_row(
    "text", ["0", "201", "-1", "+1", "1.0", "1e2", "x", "١", "²", "0000000100000", "9" * 6000]
)
def test_what_is_no_such_number_is_refused(text: str) -> None:
    assert refusal(lambda: Query({"a": text}).integer("a", 1, 200, 50)) == INVALID


def test_a_number_in_the_query_has_at_most_18_digits() -> None:
    """So it fits into SQLite's integers, and no long text is parsed."""
    assert Query({"a": "9" * 18}).integer("a", 0, 10**20, 0) == 10**18 - 1
    assert refusal(lambda: Query({"a": "1" + "0" * 18}).integer("a", 0, 10**20, 0)) == INVALID


def test_texts_in_the_query_are_trimmed() -> None:
    assert Query({"a": " x "}).text("a") == "x"
    assert Query({"a": "  "}).text("a") is None
    assert Query({}).text("a") is None


def test_a_choice_is_one_of_its_words() -> None:
    assert Query({}).choice("a", ("x", "y"), "x") == "x"
    assert Query({"a": "y"}).choice("a", ("x", "y"), "x") == "y"
    assert Query({}).optional_choice("a", ("x", "y")) is None
    assert Query({"a": "y"}).optional_choice("a", ("x", "y")) == "y"
    for word in ("z", "X", "x,y"):
        query = Query({"a": word})
        assert refusal(partial(query.choice, "a", ("x", "y"), "x")) == INVALID
        assert refusal(partial(query.optional_choice, "a", ("x",))) == INVALID


def test_days_are_counted_from_the_epoch() -> None:
    assert Query({"a": "1970-01-01"}).day("a") == 0
    assert Query({"a": "2024-02-29"}).day("a") == 19_782
    assert Query({"a": "9999-12-31"}).day("a") == 2_932_896
    assert Query({}).day("a") is None


@each_row(
    "text", ["2026-02-29", "2026-5-14", "2026-05-14T00:00:00Z", "0000-01-01", "today", "٢٠٢٦-٠٥-١٤"]
)
def test_what_is_no_day_is_refused(text: str) -> None:
    assert refusal(lambda: Query({"a": text}).day("a")) == INVALID


def test_days_go_forward() -> None:
    assert Query({}).days() == (None, None)
    assert Query({"from": "1970-01-02", "to": "1970-01-02"}).days() == (1, 1)
    backward = Query({"from": "1970-01-03", "to": "1970-01-02"})
    assert refusal(backward.days) == (400, "invalid_field", "from")


def test_moments_at_the_ends_of_time() -> None:
    assert parse_moment_ms("a", "9999-12-31T23:59:59.999Z") == 253_402_300_799_999
    assert parse_moment_ms("a", "0001-01-01T00:00:00+23:59") < -62_135_596_800_000


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


async def test_a_hundred_at_once_have_one_effect(place: Place) -> None:
    """Requests through two connections in two threads, like two processes serving the console."""
    async with open_books_thread(place.path) as second:
        threads = (place.thread, second) * 50
        answers = await asyncio.gather(*(place.send("race", thread=one) for one in threads))
    assert [repeated for repeated, _ in answers].count(True) == 99
    assert [body for _, body in answers] == [answers[0][1]] * 100
    assert answers[0][1]["entry"]["amount"] == "5.00"
    assert place.count_credits() == 1
    balance = "SELECT balance_nano FROM accounts WHERE name = 'own'"
    assert query(place.path, balance) == [(5 * 10**9,)]


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
