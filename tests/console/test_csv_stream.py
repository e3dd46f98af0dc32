"""CSV has the same rows as JSON, has no formulas, and is never cut off unnoticed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from aiohttp import web

from gateway.admin import accounts, keys, views
from gateway.admin.fields import Figure, csv_lines
from gateway.console.lists import stream_csv
from gateway.console.origin import API_HEADERS
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.books.books import Books
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.times import DAY_MS
from tests.console.calls import NOON_MS, Past, add_calls
from tests.console.handler_kit import make_request, open_books_thread
from tests.console.history import guard, open_history, read_csv
from tests.console.kit import API, HOLDER, Console, open_console
from tests.ledger.kit import until
from tests.support.rows import each_row

STORED: Final = {"\tTAB()": "'�TAB()", "two\nlines\r": "two�lines�", "\r=1": "'�=1"}
"""Texts that no verb accepts, and the cell that each becomes."""


def to_cell(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


async def read_json(console: Console, path: str, name: str) -> list[dict[str, Any]]:
    """Read all pages of a list."""
    rows: list[dict[str, Any]] = []
    joint = "&" if "?" in path else "?"
    target = f"{path}{joint}limit=200"
    while True:
        reply = await console.get(target)
        rows += reply.json[name]
        if reply.json["next_cursor"] is None:
            assert "Link" not in reply.headers
            assert len(rows) == reply.json["count"]
            return rows
        target = reply.headers["Link"][1:].partition(">")[0]


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_history(tmp_path) as console:
        yield console


QUERIES: Final = (
    "activity",
    "activity?model=demo/echo&to=2024-10-03",
    "activity?from=2024-10-04&to=2024-10-04",
    "activity?model=nothing",
    "billing",
    "billing?kind=charge",
    "billing?kind=correction",
    "billing?kind=code",
)


@each_row("target", QUERIES)
async def test_csv_has_the_rows_of_the_json(console: Console, target: str) -> None:
    topic, _, query = target.partition("?")
    name, columns = {
        "activity": ("calls", views.CALL.names),
        "billing": ("entries", views.ENTRY.names),
    }[topic]
    rows = await read_json(console, f"{API}/{target}", name)
    reply = await console.get(f"{API}/{topic}.csv?{query}")
    assert reply.body.decode().splitlines()[0] == ",".join(columns)
    texts = {"note", "key_name"}
    expected = [
        {key: guard(row[key]) if key in texts else to_cell(row[key]) for key in columns}
        for row in rows
    ]
    assert all(set(row) == set(columns) for row in rows)
    assert read_csv(reply) == expected
    assert bool(rows) is (query not in {"model=nothing", "kind=code"})


async def test_csv_headers(console: Console) -> None:
    reply = await console.get(f"{API}/billing.csv")
    assert reply.headers["Content-Type"] == "text/csv; charset=utf-8"
    disposition = reply.headers["Content-Disposition"]
    assert disposition.startswith('attachment; filename="billing-20')
    assert len(disposition) == len('attachment; filename="billing-2026-11-21.csv"')
    assert reply.headers["Transfer-Encoding"] == "chunked"
    assert reply.headers["x-request-id"].startswith("req_")
    for name, value in API_HEADERS.items():
        assert reply.headers[name] == value


@each_row(
    ("target", "field"),
    [
        ("billing.csv?kind=gift", "kind"),
        ("billing.csv?from=tomorrow", "from"),
        ("activity.csv?from=2026-05-15&to=2026-05-14", "from"),
        ("activity?to=2026", "to"),
        ("activity?cursor=x", "cursor"),
        ("billing?cursor=WyJ4Il0", "cursor"),
    ],
)
async def test_a_bad_filter_is_an_ordinary_refusal(
    console: Console, target: str, field: str
) -> None:
    reply = await console.get(f"{API}/{target}")
    assert reply.refusal == (400, "invalid_field", field)
    assert reply.headers["Content-Type"] == "application/json"


async def test_control_characters_never_reach_a_cell(tmp_path: Path) -> None:
    """No verb accepts control characters; even if one is stored, a record stays one line."""

    def seed(books: SqliteBooks) -> None:
        for number in range(len(STORED)):
            keys.add_key(books, HOLDER, KeyTerms(name=str(number)))
        account_id = books.accounts.read(HOLDER).id
        for key in books.keys.read_all(HOLDER):
            add_calls(tmp_path / "gateway.db", account_id, [Past(key.id, NOON_MS, NOON_MS + 1)])
        with contextlib.closing(sqlite3.connect(tmp_path / "gateway.db")) as connection:
            for number, name in enumerate(STORED):
                connection.execute("UPDATE keys SET name = ? WHERE name = ?", (name, str(number)))
            connection.commit()

    async with open_console(tmp_path, seed=seed) as console:
        reply = await console.get(f"{API}/activity.csv")
    assert {row["key_name"] for row in read_csv(reply)} == set(STORED.values())
    assert reply.body.count(b"\n") == 1 + len(STORED)


def test_amounts_below_0_stay_figures() -> None:
    assert csv_lines([(Figure("-0.05"), "-0.05", -5, None)]) == "-0.05,'-0.05,-5,\n"


Chunk = tuple[list[dict[str, object]], int | None]
Read = Callable[[Books, int | None], Chunk]


@contextlib.asynccontextmanager
async def serve(path: Path, read: Read) -> AsyncIterator[str]:
    """Serve one route, whose reply is the rows of `read` as CSV."""
    with accounts.open_books(path, create=True) as books:
        account = accounts.add_account(books, "own")

    async def handle(request: web.Request) -> web.StreamResponse:
        made = make_request(request, books_thread, account, started_ms=NOON_MS + DAY_MS)
        return await stream_csv(made, "test", ("n",), read)

    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app, access_log=None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with open_books_thread(path) as books_thread:
            await runner.setup()
            await web.SockSite(runner, listener).start()
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
            await runner.cleanup()


def count_to(last: int) -> Read:
    def read(_: Books, after: int | None) -> Chunk:
        number = 0 if after is None else after
        return [{"n": number}], number + 1 if number < last else None

    return read


async def test_chunks_are_one_file(tmp_path: Path) -> None:
    async with (
        serve(tmp_path / "gateway.db", count_to(3)) as url,
        aiohttp.ClientSession() as web_,
        web_.get(url) as response,
    ):
        assert await response.read() == b"n\n0\n1\n2\n3\n"
        assert 'filename="test-2024-10-05.csv"' in response.headers["Content-Disposition"]


@pytest.mark.parametrize("error", [LedgerError("disk"), RuntimeError("ours")])
@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_a_file_that_is_cut_off_does_not_end_cleanly(
    tmp_path: Path, error: Exception, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection is reset, whatever the framing."""

    def read(books: Books, after: int | None) -> Chunk:
        if after == 2:
            raise error
        return count_to(9)(books, after)

    async with serve(tmp_path / "gateway.db", read) as url:
        port = int(url.rsplit(":", 1)[1].strip("/"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET / HTTP/{version}\r\nHost: x\r\n\r\n".encode())
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
    assert "Error handling request" in caplog.text


async def test_an_error_before_the_first_row_is_an_ordinary_one(tmp_path: Path) -> None:
    def read(_books: Books, _after: int | None) -> Chunk:
        raise web.HTTPConflict

    async with (
        serve(tmp_path / "gateway.db", read) as url,
        aiohttp.ClientSession() as web_,
        web_.get(url) as response,
    ):
        assert response.status == 409


async def test_who_leaves_is_not_read_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Reading stops soon after the caller has left, and no error is logged."""
    caplog.set_level("INFO", "gateway.console")
    asked: list[int] = []
    gone = threading.Event()

    def read(_: Books, after: int | None) -> Chunk:
        number = 0 if after is None else after
        asked.append(number)
        assert number == 0 or gone.wait(5)
        return [{"n": "x" * 100_000}], number + 1

    async with serve(tmp_path / "gateway.db", read) as url:
        port = int(url.rsplit(":", 1)[1].strip("/"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
        gone.set()
        await until(lambda: "left before the download was complete" in caplog.text, 5)
    assert len(asked) < 100
    assert {record.levelname for record in caplog.records} <= {"INFO", "DEBUG"}
