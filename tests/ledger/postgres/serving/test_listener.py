"""Changes are heard of at once, also after the connection broke."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from gateway.ledger.postgres.serving import feed as module
from gateway.ledger.postgres.serving.feed import Listener
from gateway.ledger.postgres.session import connect
from gateway.ledger.records import LedgerError
from tests.ledger.databases import CUT_OFF

TELL = "INSERT INTO changes (kind, id) VALUES ('account', '1')"
WAIT_SECONDS = 30.0


class Ear:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.heard = threading.Semaphore(0)

    def wait(self) -> None:
        assert self.heard.acquire(timeout=WAIT_SECONDS)


@pytest.fixture
def ear(ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ear]:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    ear = Ear()
    listener = Listener(ledger_url, ear.heard.release)
    ear.wait()  # it listens, and tells that there may be something
    yield ear
    listener.close()
    listener._thread.join(WAIT_SECONDS)
    assert not listener._thread.is_alive()


def test_it_tells_of_each_commit(ear: Ear, ledger_url: str) -> None:
    with closing(connect(ledger_url)) as session:
        session.run(f"BEGIN; {TELL}")
        assert not ear.heard.acquire(timeout=0.05)
        session.run("COMMIT")
        ear.wait()
        session.run(TELL)
        ear.wait()


def test_it_comes_back_and_tells_of_what_was_missed(ear: Ear, ledger_url: str) -> None:
    with closing(connect(ledger_url)) as session:
        session.run(CUT_OFF)
        ear.wait()
        session.run(TELL)
        ear.wait()


def test_a_server_that_is_not_there_is_tried_again_until_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = threading.Semaphore(0)

    def refuse(url: str) -> None:
        tries.release()
        raise LedgerError(url)

    monkeypatch.setattr(module, "connect", refuse)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    listener = Listener("postgresql://nowhere", lambda: None)
    for _ in range(3):
        assert tries.acquire(timeout=WAIT_SECONDS)
    listener.close()
    listener._thread.join(WAIT_SECONDS)
    assert not listener._thread.is_alive()
