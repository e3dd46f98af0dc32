"""Lists over HTTP: a cursor leads to the next page; CSV has the rows of the JSON, and no formulas."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from gateway.admin import views
from gateway.base.times import DAY_MS
from gateway.extras.console.callers import API_HEADERS
from gateway.extras.console.lists import stream_csv
from gateway.extras.reports.views import CALL
from gateway.ledger.opening import open_books
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.books import Books
from tests.extras.console.calls import NOON_MS
from tests.extras.console.handler_kit import make_request, open_books_thread
from tests.extras.console.history import guard, open_history, read_csv
from tests.extras.console.kit import API, Console, read_pages
from tests.extras.console.plain import read_body, read_cursor
from tests.ledger.contract.kit import until
from tests.support.rows import each_row

on_one_loop = pytest.mark.asyncio(loop_scope="module")

# ---- pages ---------------------------------------------------------------------------------------


def test_lists_in_lists_are_refused_however_deep() -> None:
    nested = "W1tb" * 20_000 + "XV1d" * 20_000  # 60,000 brackets
    assert read_cursor(nested) == "400 invalid_field cursor"
    assert read_body("text", '{"a":' * 60_000 + "1" + "}" * 60_000) == "400 invalid_json None"


# ---- CSV of the console's lists ------------------------------------------------------------------


def to_cell(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def history(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    async with open_history(tmp_path_factory.mktemp("history")) as console:
        yield console


@on_one_loop
@each_row(
    "target",
    [
        "activity",
        "activity?model=demo/echo&to=2024-10-03",
        "activity?from=2024-10-04&to=2024-10-04",
        "activity?model=nothing",
        "billing",
        "billing?kind=charge",
        "billing?kind=correction",
        "billing?kind=code",
    ],
)
async def test_csv_has_the_rows_of_the_json(history: Console, target: str) -> None:
    topic, _, query = target.partition("?")
    name, columns = {"activity": ("calls", CALL.names), "billing": ("entries", views.ENTRY.names)}[
        topic
    ]
    rows = await read_pages(history, f"{API}/{topic}?{query}&limit=200", name)
    reply = await history.get(f"{API}/{topic}.csv?{query}")
    assert reply.body.decode().splitlines()[0] == ",".join(columns)
    texts = {"note", "key_name"}
    assert read_csv(reply) == [
        {key: guard(row[key]) if key in texts else to_cell(row[key]) for key in columns}
        for row in rows
    ]
    assert all(set(row) == set(columns) for row in rows)
    assert bool(rows) is (query not in {"model=nothing", "kind=code"})


@on_one_loop
async def test_csv_headers(history: Console) -> None:
    reply = await history.get(f"{API}/billing.csv")
    assert reply.headers["Content-Type"] == "text/csv; charset=utf-8"
    disposition = reply.headers["Content-Disposition"]
    assert disposition.startswith('attachment; filename="billing-20')
    assert len(disposition) == len('attachment; filename="billing-2026-11-21.csv"')
    assert reply.headers["Transfer-Encoding"] == "chunked"
    assert reply.headers["x-request-id"].startswith("req_")
    assert API_HEADERS.items() <= reply.headers.items()


# ---- CSV in chunks -------------------------------------------------------------------------------

Chunk = tuple[list[dict[str, object]], int | None]
Read = Callable[[Books, int | None], Chunk]


@contextlib.asynccontextmanager
async def serve(path: Path, read: Read) -> AsyncIterator[str]:
    """Serve one route, whose reply is the rows of `read` as CSV."""
    with open_books(path, create=True) as books:
        account = books.accounts.create("own")

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


async def ask(url: str, version: str = "1.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = urlsplit(url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET / HTTP/{version}\r\nHost: x\r\n\r\n".encode())
    return reader, writer


@each_row("error", [LedgerError("disk"), RuntimeError("ours")])
@each_row("version", ["1.1", "1.0"])
async def test_a_file_that_is_cut_off_does_not_end_cleanly(
    tmp_path: Path, error: Exception, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection is reset, whatever the framing."""

    def read(books: Books, after: int | None) -> Chunk:
        if after == 2:
            raise error
        return count_to(9)(books, after)

    async with serve(tmp_path / "gateway.db", read) as url:
        reader, writer = await ask(url, version)
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
        reader, writer = await ask(url)
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
        gone.set()
        await until(lambda: "left before the download was complete" in caplog.text, 5)
    assert len(asked) < 100
    assert {record.levelname for record in caplog.records} <= {"INFO", "DEBUG"}
