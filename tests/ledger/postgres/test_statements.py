"""Statements in PostgreSQL's words, and those that the event loop runs itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing

import psycopg
import pytest

from gateway.ledger.postgres.session import Session, connect
from gateway.ledger.postgres.statements import translate
from tests.ledger.databases import ask
from tests.support.postgres import Cluster
from tests.support.rows import each_row
from tests.support.waiting import until


@each_row(
    ("written", "said"),
    [
        ("a = ? AND b = ?", "a = %s AND b = %s"),
        ("a = :name", "a = %(name)s"),
        ("CAST(a AS text), a::text", "CAST(a AS text), a::text"),
        ("a % 7 = ?", "a %% 7 = %s"),
        ("name LIKE :x ESCAPE '!'", "name ILIKE %(x)s ESCAPE '!'"),
        ("dislikes, likely", "dislikes, likely"),
        ("json_group_array(id)", "json_agg(id)"),
        ("json_array(a, b)", "json_build_array(a, b)"),
        (
            "SELECT value FROM json_each(:ids)",
            "SELECT value FROM json_array_elements_text(CAST(%(ids)s AS json)) AS each (value)",
        ),
        ("FROM requests INDEXED BY by_account WHERE", "FROM requests  WHERE"),
        ("a CROSS JOIN b ON a.id = b.id", "a JOIN b ON a.id = b.id"),
        ("a CROSS JOIN b", "a CROSS JOIN b"),
        (
            "requests.a = coalesce(:a, requests.a)",
            "(%(a)s IS NULL OR requests.a = %(a)s)",
        ),
        ("a = coalesce(:a, b)", "a = coalesce(%(a)s, b)"),
        ("a CROSS JOIN LATERAL b ON TRUE", "a CROSS JOIN LATERAL b ON TRUE"),
    ],
)
def test_a_statement_is_said_in_words_of_postgresql(written: str, said: str) -> None:
    assert translate(written) == said


LARGE = "x" * 8_000_000
"""More than the kernel takes at once, or gives at once."""


@pytest.fixture
def session(postgres_url: str) -> Iterator[Session]:
    with closing(connect(postgres_url)) as session:
        yield session


@asynccontextmanager
async def sleeping(session: Session) -> AsyncIterator[asyncio.Future[bytes]]:
    """Run a statement that ends when something breaks it off."""
    task = asyncio.get_running_loop().create_task(session.fetch_value(b"SELECT pg_sleep(600)", ()))
    yield task
    with pytest.raises(psycopg.OperationalError):
        await task
    assert session.is_broken


async def test_values_are_text_a_number_or_nothing(session: Session) -> None:
    told = await session.fetch_value(
        b"SELECT concat_ws('|', $1::bigint, $2::json, $3::text, coalesce($4, 'nothing'))",
        (2**62, b"[1]", "it's \\ $1", None),
    )
    assert told == b"4611686018427387904|[1]|it's \\ $1|nothing"


async def test_statements_follow_one_another_also_after_an_error(session: Session) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero, match="division by zero"):
        await session.fetch_value(b"SELECT 1 / $1::int", (0,))
    assert await session.fetch_value(b"SELECT 2", ()) == b"2"
    assert ask(session, "SELECT 3") == 3, "not even on a thread"


async def test_much_goes_and_comes_in_parts(session: Session) -> None:
    assert await session.fetch_value(b"SELECT $1::text || '.'", (LARGE,)) == f"{LARGE}.".encode()


async def test_the_loop_goes_on_meanwhile(session: Session) -> None:
    async with sleeping(session) as task:
        assert await asyncio.wait_for(asyncio.sleep(0, "went on"), 5) == "went on"
        assert not task.done()
        session.break_off()


@pytest.mark.parametrize("signal", ["terminate", "break off"])
async def test_a_line_that_breaks_is_an_error(
    session: Session, postgres: Cluster, signal: str
) -> None:
    """Told by the server, or not; the loop knows its socket no more."""
    pid = session.driver.info.backend_pid
    async with sleeping(session):
        asking = f"SELECT wait_event FROM pg_stat_activity WHERE pid = {pid}"
        await until(lambda: "PgSleep" in postgres.run_sql(asking), "the statement")
        if signal == "terminate":
            postgres.run_sql(f"SELECT pg_terminate_backend({pid})")
        else:
            session.break_off()
    with pytest.raises(psycopg.OperationalError):
        await session.fetch_value(b"SELECT 1", ())


def test_a_line_that_broke_before_is_an_error_on_uvloop(
    session: Session, postgres_url: str
) -> None:
    """It tells of a socket with an error once, when only a part of what came was read."""
    uvloop = pytest.importorskip("uvloop")
    pid = session.driver.info.backend_pid
    with closing(connect(postgres_url)) as other:
        ask(other, "SELECT pg_terminate_backend(?, 5000)", (pid,))

    async def fetch() -> None:
        with pytest.raises(psycopg.OperationalError):
            await asyncio.wait_for(session.fetch_value(b"SELECT 1", ()), 5)

    uvloop.run(fetch())


async def test_who_no_longer_waits_gets_nothing(session: Session) -> None:
    loop, unheard = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: unheard.append(context))
    task = loop.create_task(session.fetch_value(b"SELECT pg_sleep(0.2)::text", ()))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(task, 0.05)
    await until(lambda: not session.driver.pgconn.is_busy(), "the answer")
    assert await session.fetch_value(b"SELECT 1", ()) == b"1"
    assert unheard == []


class Deaf:
    """A line to the server that reads no more once a test says so, and then ends towards the gateway."""

    def __init__(self, port: int) -> None:
        self.stops, self.ends, self.breaks = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._port = port

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._port)
        going_down = asyncio.get_running_loop().create_task(self._pass(server_reader, writer))
        try:
            going_up = asyncio.get_running_loop().create_task(self._pass(reader, server_writer))
            await self.stops.wait()
            going_up.cancel()
            await self.ends.wait()
            writer.write_eof()
            await self.breaks.wait()
        finally:
            going_up.cancel()
            going_down.cancel()
            for one in (writer, server_writer):
                one.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(2**16):
            writer.write(data)


async def test_a_line_that_ends_before_all_is_written_is_an_error(
    postgres: Cluster, postgres_url: str
) -> None:
    """The loop still waits to write when it is told to read, and libpq closes the socket."""
    line = Deaf(postgres.port)
    async with await asyncio.start_server(line.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = postgres_url.replace(f":{postgres.port}/", f":{port}/")
        with closing(await asyncio.to_thread(connect, url)) as session:
            line.stops.set()
            task = asyncio.get_running_loop().create_task(
                session.fetch_value(b"SELECT $1::text", (LARGE * 4,))
            )
            await asyncio.sleep(0)  # it is on its way
            line.ends.set()
            async with asyncio.timeout(10):
                with pytest.raises(psycopg.OperationalError):
                    await task
            assert session.is_broken
        line.breaks.set()
