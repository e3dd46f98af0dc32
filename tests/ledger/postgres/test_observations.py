"""Sums beside the books: added up, whole or not at all, whoever else writes the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import psycopg
import pytest

from gateway.ledger.postgres import nodes
from gateway.ledger.postgres.nodes import write_aside
from gateway.ledger.postgres.session import Session, connect
from gateway.ledger.serving.sums import CallSum, Observations, RefusalSum
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.contract.test_observations import make_failure

HOUR = NOW_MS // 3_600_000
SLOT = NOW_MS // 60_000
CODES = [f"code_{number}" for number in range(50)]


@pytest.fixture
def session(ledger_url: str) -> Iterator[Session]:
    with closing(connect(ledger_url)) as session:
        yield session


def observe(codes: list[str]) -> Observations:
    return Observations(
        refusals={(HOUR, None, code, ""): RefusalSum(2, NOW_MS, "req_1") for code in codes},
        calls={(SLOT, code, "m"): CallSum(3, 1, make_failure()) for code in codes},
        failures=[make_failure()],
    )


def test_sums_are_added_to_what_is_stored(session: Session) -> None:
    for _ in range(2):
        write_aside(session, observe(["x"]), NOW_MS)
    assert not session.in_transaction
    assert session.execute("SELECT code, refused FROM refusals").fetchall() == [("x", 4)]
    calls = session.execute("SELECT calls, failures, failed_status FROM upstream_calls")
    assert calls.fetchall() == [(6, 2, 401)]
    assert session.execute("SELECT count(*) FROM upstream_failures").fetchall() == [(2,)]


def test_nothing_is_written_of_nothing(session: Session) -> None:
    write_aside(session, Observations(), NOW_MS)
    assert session.execute("SELECT count(*) FROM refusals").fetchall() == [(0,)]


def test_a_failure_undoes_all(session: Session) -> None:
    session.run("ALTER TABLE upstream_failures RENAME TO gone")
    with pytest.raises(psycopg.Error):
        write_aside(session, observe(["x"]), NOW_MS)
    assert not session.in_transaction
    assert session.execute("SELECT count(*) FROM refusals").fetchall() == [(0,)]


def test_others_wait_for_a_process_that_is_stopped_for_seconds_alone(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction has rows that they write, before their own next rounds."""
    timeouts: list[object] = []

    def look(connection: Session, *_: object) -> None:
        timeouts.append(connection.execute("SHOW idle_in_transaction_session_timeout").fetchone())

    monkeypatch.setattr(nodes, "write_observations", look)
    write_aside(session, observe(["x"]), NOW_MS)
    assert timeouts == [("2s",)]


def test_nodes_that_write_the_same_sums_wait_for_nobody_in_a_circle(ledger_url: str) -> None:
    """Each counted them in another order."""

    def write(codes: list[str]) -> None:
        with closing(connect(ledger_url)) as session:
            for _ in range(20):
                while True:  # as the observer does
                    with suppress(psycopg.errors.LockNotAvailable):
                        write_aside(session, observe(codes), NOW_MS)
                        break

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(write, codes) for codes in (CODES, CODES[::-1])]:
            done.result(60)
    with closing(connect(ledger_url)) as session:
        rows = session.execute("SELECT DISTINCT refused FROM refusals").fetchall()
    assert rows == [(2 * 20 * 2,)]
