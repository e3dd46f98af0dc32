"""The tests' own PostgreSQL: databases as an operator makes them, ends of every kind, PgBouncer."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from typing import Final

import pytest

from tests.support import databases
from tests.support.pgbouncer import Bouncer, run_bouncer
from tests.support.postgres import Cluster, run_cluster

psycopg = pytest.importorskip("psycopg", reason="no psycopg: pip install 'gateway[postgres]'")

MARK: Final = "CREATE TABLE marks AS SELECT 7 AS mark"

ENDS: dict[str, Callable[[Cluster], None]] = {
    "fast": Cluster.stop,
    "immediate": lambda cluster: cluster.stop("immediate"),
    "kill": Cluster.kill,
}


def ask(url: str, statement: str) -> object:
    """Run a statement in a transaction of its own and return the first value it gives."""
    with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as connection:
        row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


def accepts(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_database_is_new_and_its_role_has_no_other_power(
    postgres: Cluster, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute(MARK)
    assert ask(postgres_url, "SELECT mark FROM marks") == 7
    assert ask(postgres_url, "SELECT current_setting('is_superuser')") == "off"
    other = postgres.make_database()
    with pytest.raises(psycopg.errors.UndefinedTable):
        ask(other, "SELECT mark FROM marks")
    postgres.drop_database(other)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        ask(other, "SELECT 1")


def test_a_database_is_dropped_under_a_connection(postgres: Cluster) -> None:
    url = postgres.make_database()
    with psycopg.connect(url) as forgotten:
        postgres.drop_database(url)
        with pytest.raises(psycopg.OperationalError):
            forgotten.execute("SELECT 1")


def test_a_server_comes_back_from_any_end_and_leaves_nothing() -> None:
    with run_cluster(databases.need_server()) as cluster:
        url = cluster.make_database()
        with psycopg.connect(url) as connection:
            connection.execute(MARK)
        for name, end in ENDS.items():
            with psycopg.connect(url) as open_one:
                end(cluster)
                with pytest.raises(psycopg.OperationalError):
                    open_one.execute("SELECT 1")
            assert not accepts(cluster.port), name
            cluster.settings["max_connections"] = 37
            cluster.start()
            assert ask(url, "SELECT mark FROM marks") == 7, name
        assert ask(url, "SELECT current_setting('max_connections')") == "37"
        assert ask(url, "SELECT current_setting('fsync')") == "on"
    assert not accepts(cluster.port)
    assert not cluster.folder.exists()


def test_a_server_that_cannot_start_says_why() -> None:
    with run_cluster(databases.need_server(), durable=False) as cluster:
        assert cluster.run_sql("SHOW fsync;").strip() == "off"
        cluster.stop()
        cluster.settings["no_such_setting"] = 1
        with pytest.raises(AssertionError, match="no_such_setting"):
            cluster.start()
    assert not cluster.folder.exists()


def test_statements_that_fail_are_told(postgres: Cluster) -> None:
    with pytest.raises(AssertionError, match="no_such_table"):
        postgres.run_sql("SELECT 1; SELECT * FROM no_such_table; SELECT 2;")


def test_clients_share_one_connection_by_transactions(postgres: Cluster, postgres_url: str) -> None:
    """In session mode the second client would wait for the first to leave."""
    settings = {"default_pool_size": 1, "query_wait_timeout": 5}
    with run_bouncer(databases.need_bouncer(), postgres, settings=settings) as pool:
        url, pid = pool.url(postgres_url), "SELECT pg_backend_pid()"
        with psycopg.connect(url, autocommit=True) as first:
            seen = first.execute(pid).fetchone()
            assert seen == (ask(url, pid),)
        pool.stop()
        assert not accepts(pool.port)
        pool.start()
        assert ask(url, "SELECT current_user") == "gateway"


def test_the_shared_pool_has_a_connection_for_each_open_transaction(
    bouncer: Bouncer, postgres_url: str
) -> None:
    url = bouncer.url(postgres_url)
    with psycopg.connect(url) as first:
        seen = first.execute("SELECT pg_backend_pid()").fetchone()
        assert seen != (ask(url, "SELECT pg_backend_pid()"),)
        assert seen == first.execute("SELECT pg_backend_pid()").fetchone()


def test_a_server_that_hangs_is_killed_and_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.daemons.STOP_SECONDS", 0.2)
    with run_cluster(databases.need_server(), durable=False) as cluster:
        assert cluster.daemon.process is not None
        cluster.daemon.process.send_signal(signal.SIGSTOP)
        with pytest.raises(AssertionError, match="did not stop on SIGINT"):
            cluster.stop()
    assert not accepts(cluster.port)


@pytest.mark.parametrize(
    ("need", "missing"),
    [(databases.need_server, "find_server"), (databases.need_bouncer, "find_bouncer")],
)
def test_without_the_program_tests_are_skipped_by_its_name(
    need: Callable[[], object], missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, missing, lambda: None)
    with pytest.raises(pytest.skip.Exception, match="apt-get install p"):
        need()
