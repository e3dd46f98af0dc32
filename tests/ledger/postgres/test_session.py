"""A connection: values, transactions, and errors that tell no secret."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import psycopg
import pytest

from gateway.ledger.postgres.session import (
    NOW,
    DatabaseClock,
    Session,
    connect,
    describe,
    explain,
    transaction,
)
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.connection import Values
from gateway.times import unix_ms
from tests.ledger.databases import ask
from tests.support.process import free_port
from tests.support.rows import each_row


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


def test_values_have_names(session: Session) -> None:
    rows = session.execute("SELECT :b, :a, CAST(:a AS text) || '::x'", {"a": 1, "b": None})
    assert rows.fetchall() == [(None, 1, "1::x")]


def test_many_rows_are_written(session: Session) -> None:
    session.run("CREATE TABLE t (x bigint, y text)")
    session.executemany("INSERT INTO t VALUES (?, ?)", [(1, "a"), (True, None)])
    assert session.execute("SELECT * FROM t").fetchall() == [(1, "a"), (1, None)]


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
    failed: list[BaseException] = []

    def hang() -> None:
        try:
            session.run("SELECT pg_sleep(60)")
        except psycopg.OperationalError as error:
            failed.append(error)

    thread = threading.Thread(target=hang)
    thread.start()
    with closing(connect(postgres_url)) as other:
        while not ask(other, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"):
            pass
    session.break_off()
    thread.join(10)
    assert len(failed) == 1
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
def test_no_error_has_the_password(parameters: str) -> None:
    url = f"postgresql://ann:hush1@127.0.0.1:{free_port()}/books{parameters}"
    with pytest.raises(LedgerError, match=r"postgresql://ann@127\.0\.0\.1:\d+/books: ") as found:
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


def test_a_server_that_does_not_run_is_told_by_the_reason() -> None:
    """The driver's message ends with a line of advice, which says less."""
    url = f"postgresql://gateway:secret@127.0.0.1:{free_port()}/gateway"
    with pytest.raises(LedgerError, match=r"127\.0\.0\.1.* failed: Connection refused$") as caught:
        connect(url)
    assert "secret" not in str(caught.value)


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
