"""Books over both databases: changes, snapshots, events; the same answers, to the type, after the same deeds."""

from __future__ import annotations

import os
import socket
from itertools import count
from pathlib import Path

import pytest

from gateway.ledger.records import (
    SYSTEM,
    Actor,
    LedgerError,
    OtherRequest,
    Refused,
    RepeatableRequest,
    StoredReply,
)
from gateway.ledger.sql import alerts
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.process import find_version
from gateway.times import unix_ms
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.sql.books.conftest import Clock
from tests.ledger.sql.books.life import Life
from tests.ledger.sql.books.places import ONLY_SQLITE, AnyBooks, BooksPlace


def test_a_change_inside_another_is_a_part_of_it(books: AnyBooks) -> None:
    def change() -> None:
        with books.changing():
            books.accounts.suspend("a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change()
    assert not books.accounts.read("a").suspended
    assert not books.connection.in_transaction


def test_a_snapshot_sees_one_state_and_changes_nothing(
    books: AnyBooks, place: BooksPlace, clock: Clock
) -> None:
    with place.open(clock) as other:
        with books.snapshot():
            assert not books.accounts.read("a").suspended
            other.accounts.suspend("a")
            with books.snapshot():
                assert not books.accounts.read("a").suspended
        assert books.accounts.read("a").suspended


def test_failures_of_a_database_are_errors_of_the_ledger(books: AnyBooks) -> None:
    for use in (books.reading, books.snapshot, books.changing):
        with pytest.raises(LedgerError, match="nowhere") as error, use() as connection:
            connection.execute("SELECT * FROM nowhere")
        assert type(error.value.__cause__).__module__.startswith(("sqlite3", "psycopg"))
        assert not books.connection.in_transaction


def test_a_change_waits_for_others_as_long_as_told(
    books: AnyBooks, place: BooksPlace, clock: Clock
) -> None:
    books.wait_for_others(1)
    with place.open(clock) as other, other.changing(), pytest.raises(LedgerError, match="lock"):
        books.accounts.suspend("a")
    books.accounts.suspend("a")


@ONLY_SQLITE
def test_a_long_statement_is_given_up(books: AnyBooks) -> None:
    books.give_up_when(lambda: True)
    long = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with pytest.raises(LedgerError, match="interrupted"):
        books.read_number(long)


def test_an_event_has_the_actor_of_its_time(books: AnyBooks) -> None:
    books.note("first", account="a")
    books.actor = Actor("boss", "192.0.2.7")
    books.note("second", account=None, target="t", detail="d")
    second, first, *_ = books.events.read_page(None, None, 5)
    assert (first.actor, first.address, first.account) == ("cli", None, "a")
    assert (second.actor, second.address, second.account) == ("boss", "192.0.2.7", None)
    assert (second.target, second.detail) == ("t", "d")


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


def test_a_search_is_literal_and_ignores_case(books: AnyBooks) -> None:
    """Wildcards of LIKE and its escape are letters like others."""
    for target in ("50%", "5000", "a_b", "axb", "a\\b"):
        books.note("test", account=None, target=target)
    for part, targets in (("0%", ["50%"]), ("A_B", ["a_b"]), ("\\", ["a\\b"]), ("zz", [])):
        found = books.events.read_page(part, None, 10)
        assert [event.target for event in found] == targets
        assert books.events.count(part) == len(targets)


def test_pages_go_back_from_the_latest(books: AnyBooks) -> None:
    for number in range(4):
        books.note("test", account=None, target=str(number))
    first = books.events.read_page("test", None, 3)
    second = books.events.read_page("test", first[-1].id, 3)
    assert [event.target for event in (*first, *second)] == ["3", "2", "1", "0"]


def test_the_last_of_an_action_is_the_last_that_was_written(books: AnyBooks, clock: Clock) -> None:
    """Also if the clock was set back."""
    assert books.events.find_last("test") is None
    for now_ms in (NOW_MS + 5, NOW_MS + 3):
        clock.now_ms = now_ms
        books.note("test", account=None)
    last = books.events.find_last("test")
    assert last is not None
    assert last.at_ms == NOW_MS + 3
    books.note("other", account=None)
    assert books.events.find_last("test") == last


def test_the_last_of_an_action_from_an_address(books: AnyBooks) -> None:
    for address in ("one", "two"):
        books.actor = Actor("system", address)
        books.note("test", account=None)
    assert books.events.find_last("test", "three") is None
    for address in ("one", "two"):
        last = books.events.find_last("test", address)
        assert last is not None
        assert last.address == address


def test_what_a_process_did_has_its_own_time(books: AnyBooks) -> None:
    books.actor = SYSTEM
    books.events.append("test", target="a file", detail="done", at_ms=7)
    last = books.events.find_last("test")
    assert last is not None
    assert (last.at_ms, last.actor, last.account) == (7, "system", None)
    assert (last.target, last.detail, last.address) == ("a file", "done", None)


REPEATABLE = RepeatableRequest("1", "/route", "key", b"r" * 32)


def test_a_reply_is_kept_with_its_effect_or_not_at_all(books: AnyBooks) -> None:
    def credit() -> StoredReply:
        books.entries.post("a", "credit", 5, note="")
        return StoredReply(201, b"reply")

    def fail() -> StoredReply:
        credit()
        raise Refused("no")

    with pytest.raises(Refused):
        books.replays.run_once(REPEATABLE, fail)
    assert books.accounts.read("a").balance_nano == 1000
    assert books.replays.run_once(REPEATABLE, credit) == (StoredReply(201, b"reply"), False)
    assert books.replays.run_once(REPEATABLE, fail) == (StoredReply(201, b"reply"), True)
    assert books.accounts.read("a").balance_nano == 1005


@pytest.mark.parametrize(
    ("account_id", "route", "key"), [(2, "/route", "key"), (1, "/other", "key"), (1, "/route", "k")]
)
def test_an_idempotency_key_is_of_one_account_and_route(
    books: AnyBooks, account_id: int, route: str, key: str
) -> None:
    books.accounts.create("b", credit_nano=0, operator=False)
    books.replays.run_once(REPEATABLE, lambda: StoredReply(200, b"first"))
    other = RepeatableRequest(str(account_id), route, key, b"r" * 32)
    assert books.replays.run_once(other, lambda: StoredReply(200, b"second"))[1] is False
    with pytest.raises(OtherRequest):
        books.replays.run_once(
            RepeatableRequest("1", "/route", "key", b"o" * 32), lambda: StoredReply(200, b"")
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_same_life_has_the_same_answers(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    places = (BooksPlace(tmp_path / "gateway.db"), BooksPlace(database))
    places[1].empty()
    answers = []
    for place in places:
        numbers = count()
        monkeypatch.setattr(alerts, "make_alert_id", lambda n=numbers: f"alert_{next(n):08d}")
        clock = Clock()
        with place.open(clock, create=True) as books:
            answers.append(Life(books, clock, seed).run())
    for of_sqlite, of_postgres in zip(*answers, strict=True):
        assert of_postgres == of_sqlite
