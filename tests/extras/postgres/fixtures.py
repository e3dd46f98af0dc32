"""Fixtures of tests on PostgreSQL: a server for each worker, a database for each test.

Where a program or psycopg is missing, what wants these fixtures is skipped, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.extras.postgres.cluster import (
    Bouncer,
    Cluster,
    find_bouncer,
    find_server,
    run_bouncer,
    run_cluster,
)
from tests.extras.postgres.databases import Databases


def need_server() -> Path:
    """Return the folder of the server's programs, or skip the test."""
    programs = find_server()
    if programs is None:
        pytest.skip("no PostgreSQL server: apt-get install postgresql")
    return programs


def need_bouncer() -> Path:
    """Return PgBouncer's program, or skip the test."""
    program = find_bouncer()
    if program is None:
        pytest.skip("no PgBouncer: apt-get install pgbouncer")
    return program


def need_psycopg() -> None:
    """Skip the test unless the gateway's driver is there."""
    if find_spec("psycopg") is None:
        pytest.skip("no psycopg: pip install -e '.[postgres]'")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a server as slow: to start one takes seconds, and most tests restart nodes."""
    for item in items:
        if "postgres" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """The server that most tests use: it does not wait for the disk, and nobody may stop it."""
    need_psycopg()
    with run_cluster(need_server(), durable=False, settings={"max_connections": 200}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def bouncer(postgres: Cluster) -> Iterator[Bouncer]:
    """PgBouncer in front of that server."""
    with run_bouncer(need_bouncer(), postgres) as pool:
        yield pool


@pytest.fixture(scope="session")
def databases(postgres: Cluster) -> Databases:
    return Databases(postgres)


@pytest.fixture
def ledger_url(databases: Databases) -> Iterator[str]:
    """The URL of a ledger without accounts, which is dropped after the test."""
    with databases.lend() as url:
        yield url


@pytest.fixture(scope="session")
def books_url(postgres: Cluster) -> str:
    """A database with the tables, which the tests of a worker use one after the other."""
    from gateway.extras.postgres.schema import open_session

    url = postgres.make_database()
    open_session(url, create=True).close()
    return url


@pytest.fixture
def postgres_url(postgres: Cluster) -> Iterator[str]:
    """The URL of a new database, which is dropped after the test."""
    url = postgres.make_database()
    yield url
    postgres.drop_database(url)
