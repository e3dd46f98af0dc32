"""Sessions of PostgreSQL, and the statements that they run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress

import psycopg
import pytest

from gateway.base.times import unix_ms
from gateway.extras.postgres.adapters import translate
from gateway.extras.postgres.session import (
    NOW,
    DatabaseClock,
    Session,
    connect,
    describe,
    explain,
    transaction,
)
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.database import Values
from tests.extras.postgres.cluster import Cluster
from tests.extras.postgres.databases import ask
from tests.support.process import free_port
from tests.support.rows import each_row
from tests.support.waiting import until


@pytest.fixture
def session(postgres_url: str) -> Iterator[Session]:
    with closing(connect(postgres_url)) as session:
        yield session


@pytest.mark.parametrize(
    ("sql", "values", "expected"),
    [
        ("SELECT ? + 1", (True,), 2),
        ("SELECT ? + 1", (False,), 1),
        ("SELECT sum(?::bigint) FROM generate_series(1, 3)", (2**62,), 3 * 2**62),
        ("SELECT CAST(? AS text)", ("a\0b",), "a\N{REPLACEMENT CHARACTER}b"),
        ("SELECT CAST(? AS text)", (r"it's \ 100 % ? :x",), r"it's \ 100 % ? :x"),
        ("SELECT length(?)", (b"\0\xff'",), 3),
        ("SELECT json_build_array(?)", (1,), "[1]"),
        ("SELECT ? IS NULL OR ? = 1", (None, None), True),
        ("SELECT 7 % ?", (4,), 3),
    ],
)
def test_values_come_and_go_as_with_sqlite(
    session: Session, sql: str, values: Values, expected: object
) -> None:
    found = ask(session, sql, values)
    assert (type(found), found) == (type(expected), expected)


def test_a_transaction_is_whole_or_undone(session: Session) -> None:
    session.run("CREATE TABLE t (x bigint)")
    with transaction(session):
        session.execute("INSERT INTO t VALUES (1)")
        assert session.in_transaction
    with pytest.raises(psycopg.DataError), transaction(session):
        session.run("INSERT INTO t VALUES (2); SELECT 1 / 0")
    with pytest.raises(psycopg.Error), transaction(session):
        session.execute("INSERT INTO nowhere VALUES (2)")
    assert not session.in_transaction
    assert session.execute("SELECT x FROM t").fetchall() == [(1,)]


def test_a_change_whose_statement_failed_is_not_taken_for_done(session: Session) -> None:
    """Even where the failure is not told further."""
    session.run("CREATE TABLE t (x bigint)")
    change = transaction(session)
    change.__enter__()
    session.execute("INSERT INTO t VALUES (1)")
    with suppress(psycopg.Error):
        session.run("SELECT 1 / 0")
    with pytest.raises(psycopg.Error, match="nothing is changed"):
        change.__exit__(None, None, None)
    assert not session.in_transaction
    assert ask(session, "SELECT count(*) FROM t") == 0


def test_no_round_is_beside_a_change(session: Session, postgres_url: str) -> None:
    """Nor another change; and one that cannot have the lock leaves no transaction behind."""
    with closing(connect(postgres_url)) as other:
        with transaction(session):
            assert ask(other, "SELECT pg_try_advisory_xact_lock_shared(4743, 0)") is False
            with pytest.raises(psycopg.errors.LockNotAvailable), transaction(other, 1):
                pass
            assert not other.in_transaction
        with transaction(other):
            pass


def test_a_statement_that_hangs_is_broken_off(session: Session, postgres_url: str) -> None:
    with closing(connect(postgres_url)) as other, ThreadPoolExecutor(1) as thread:
        hung = thread.submit(session.run, "SELECT pg_sleep(60)")
        while not ask(other, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"):
            assert not hung.done()
        session.break_off()
        with pytest.raises(psycopg.OperationalError):
            hung.result(10)
    assert session.is_broken
    session.close()
    session.break_off()


def test_a_url_may_say_how_to_connect(postgres_url: str) -> None:
    with closing(connect(f"{postgres_url}?application_name=mine")) as own:
        assert ask(own, "SHOW application_name") == "mine"
    with closing(connect(postgres_url)) as usual:
        assert ask(usual, "SHOW application_name") == "gateway"


def test_text_is_utf_8_whatever_the_url_says(postgres_url: str) -> None:
    with closing(connect(f"{postgres_url}?client_encoding=latin1")) as session:
        assert ask(session, "SHOW client_encoding") == "UTF8"


@each_row("parameters", ["", "?password=hush2"])
def test_a_server_that_does_not_run_is_told_by_the_reason_alone(parameters: str) -> None:
    """The driver's message ends with a line of advice, and may have the password."""
    url = f"postgresql://ann:hush1@127.0.0.1:{free_port()}/books{parameters}"
    told = r"postgresql://ann@127\.0\.0\.1:\d+/books: .* failed: Connection refused$"
    with pytest.raises(LedgerError, match=told) as found:
        connect(url)
    assert "hush" not in str(found.value)
    assert "hush" not in str(explain(url, psycopg.OperationalError()))


def test_an_error_quotes_no_values(session: Session) -> None:
    session.run("CREATE TABLE t (secret text UNIQUE)")
    session.execute("INSERT INTO t VALUES (?)", ("hush",))
    with pytest.raises(psycopg.IntegrityError) as found:
        session.execute("INSERT INTO t VALUES (?)", ("hush",))
    assert "hush" in str(found.value)
    assert describe(found.value).startswith("duplicate key value")
    assert "hush" not in describe(found.value)


def test_a_clock_goes_by_what_the_database_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within what each answer allows: it was told after it was sent, and before it came."""
    here_us, there_us = 0, 5_000_000_000
    monkeypatch.setattr("time.monotonic_ns", lambda: here_us * 1000)
    clock = DatabaseClock()

    def ask_for(there_us: int, up_us: int, down_us: int) -> None:
        nonlocal here_us
        with clock.listening() as told_us:
            here_us += up_us
            told_us.append(there_us + here_us)
            here_us += down_us

    ask_for(there_us, 4000, 4000)
    assert clock() == (there_us + here_us) // 1000
    ask_for(there_us, 90_000, 0)
    assert clock() == (there_us + here_us) // 1000, "a slow answer that allows it changes nothing"
    ask_for(there_us + 60_000_000, 0, 1000)
    assert clock() == (there_us + 60_000_000 + here_us - 1000) // 1000, "somebody set it"


def test_clocks_of_one_process_agree(postgres_url: str) -> None:
    with closing(connect(postgres_url)) as one, closing(connect(postgres_url)) as other:
        one.execute_timed(f"SELECT 1, {NOW}")
        assert abs(other.clock() - unix_ms()) < 1000


@pytest.mark.parametrize(
    ("told", "plain"),
    [
        ("FATAL:  sorry, too many clients already", "max_connections"),
        ("FATAL:  remaining connection slots are reserved for superusers", "max_connections"),
        ('FATAL:  too many connections for role "gateway"', "this role or database"),
        ("FATAL:  no more connections allowed (max_client_conn)", "max_client_conn"),
    ],
)
def test_a_server_that_is_full_is_told_in_plain_words(told: str, plain: str) -> None:
    said = describe(psycopg.OperationalError(f"connection failed: {told}"))
    assert said.startswith("all connections")
    assert plain in said
    assert "FATAL" not in said


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
        ("requests.a = coalesce(:a, requests.a)", "(%(a)s IS NULL OR requests.a = %(a)s)"),
        ("a = coalesce(:a, b)", "a = coalesce(%(a)s, b)"),
        ("a CROSS JOIN LATERAL b ON TRUE", "a CROSS JOIN LATERAL b ON TRUE"),
    ],
)
def test_a_statement_is_said_in_words_of_postgresql(written: str, said: str) -> None:
    assert translate(written) == said


LARGE = "x" * 8_000_000
"""More than the kernel takes at once, or gives at once."""


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
        await until(lambda: postgres.run_sql(asking) == [("PgSleep",)], "the statement")
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
