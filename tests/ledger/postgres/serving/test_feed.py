"""Changes of others are found once, whatever the order of their commits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from gateway.ledger.postgres.books import PostgresBooks
from gateway.ledger.postgres.serving.feed import ChangeFeed
from gateway.ledger.postgres.session import Session, connect
from tests.ledger.contract.kit import NOW_MS

TELL = "INSERT INTO changes (kind, id) VALUES ('account', ?)"


@pytest.fixture
def url(ledger_url: str) -> str:
    with PostgresBooks(ledger_url, clock=lambda: NOW_MS) as books:
        for name in ("a", "b", "c"):
            books.accounts.create(name, credit_nano=1, operator=False)
    return ledger_url


@pytest.fixture
def session(url: str) -> Iterator[Session]:
    with closing(connect(url)) as session:
        yield session


@pytest.fixture
def feed(session: Session) -> ChangeFeed:
    feed = ChangeFeed()
    snapshot = feed.read_all(session, NOW_MS)
    assert [one.name for one in snapshot.accounts] == ["a", "b", "c"]
    return feed


def poll(feed: ChangeFeed, session: Session) -> list[str]:
    snapshot = feed.poll(session)
    return [] if snapshot is None else sorted(one.name for one in snapshot.accounts)


def test_a_commit_that_comes_late_is_not_missed(
    url: str, feed: ChangeFeed, session: Session
) -> None:
    """Its row was numbered before rows that were seen. Nothing is read twice meanwhile."""
    poll(feed, session)
    with closing(connect(url)) as slow, closing(connect(url)) as quick:
        slow.run("BEGIN")
        slow.execute(TELL, ("1",))
        quick.execute(TELL, ("2",))
        assert poll(feed, session) == ["b"]
        assert poll(feed, session) == []
        quick.execute(TELL, ("3",))
        assert poll(feed, session) == ["c"]
        slow.run("COMMIT")
        assert poll(feed, session) == ["a"]
        assert poll(feed, session) == []


def test_what_was_undone_is_no_change(url: str, feed: ChangeFeed, session: Session) -> None:
    poll(feed, session)
    with closing(connect(url)) as other:
        other.run("BEGIN")
        other.execute(TELL, ("1",))
        other.run("ROLLBACK")
        assert poll(feed, session) == []
        other.execute(TELL, ("1",))
        assert poll(feed, session) == ["a"]


def test_what_was_under_way_at_the_first_look_is_found(url: str, session: Session) -> None:
    with closing(connect(url)) as slow:
        slow.run("BEGIN")
        slow.run("UPDATE accounts SET balance_nano = 9 WHERE id = 2")
        slow.execute(TELL, ("2",))
        feed = ChangeFeed()
        assert [one.balance_nano for one in feed.read_all(session, NOW_MS).accounts] == [1, 1, 1]
        slow.run("COMMIT")
        snapshot = feed.poll(session)
    assert snapshot is not None
    assert {one.name: one.balance_nano for one in snapshot.accounts}["b"] == 9


def test_the_connection_is_left_idle_and_may_be_another_one(
    url: str, feed: ChangeFeed, session: Session
) -> None:
    assert not session.in_transaction
    poll(feed, session)
    with closing(connect(url)) as other:
        other.execute(TELL, ("1",))
        assert poll(feed, other) == ["a"]
        assert poll(feed, session) == []
