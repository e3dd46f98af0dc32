"""The processes that serve from a ledger: PostgreSQL's, until they leave."""

from __future__ import annotations

import os
import socket

import pytest

from gateway.ledger.sqlite.books import SqliteBooks
from gateway.times import unix_ms
from gateway.version import find_version
from tests.ledger.sql.books.places import AnyBooks


def test_nodes_are_listed_until_they_leave(books: AnyBooks) -> None:
    assert books.list_nodes() == []
    if isinstance(books, SqliteBooks):
        return
    from gateway.ledger.postgres.nodes import leave, register
    from gateway.ledger.postgres.session import Session

    session = books.connection
    assert isinstance(session, Session)
    node, other = register(session), register(session)
    assert len(books.list_nodes()) == 2
    leave(session, other)
    (found,) = books.list_nodes()
    assert (found.host, found.pid) == (socket.gethostname(), os.getpid())
    assert found.version == find_version()
    assert found.since_ms == pytest.approx(unix_ms(), abs=60_000)
    assert found.seen_ms == pytest.approx(found.since_ms, abs=1000)
    leave(session, node)
    assert books.list_nodes() == []
