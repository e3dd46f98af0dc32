"""The books as a whole: a repeated request, the size, and a backup of a ledger that is locked."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger import OtherRequest, Refused, RepeatableRequest, StoredReply
from gateway.ledger.sqlite.books import IN_FORCE_SECONDS, SqliteBooks
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from gateway.ledger.serving.schedule import POLL_SECONDS
from tests.ledger.kit import find_key, make_place, until

REPEATABLE = RepeatableRequest("1", "/route", "key", b"r" * 32)


def test_a_reply_is_kept_with_its_effect_or_not_at_all(books: SqliteBooks) -> None:
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
    books: SqliteBooks, account_id: int, route: str, key: str
) -> None:
    books.accounts.create("b", credit_nano=0, operator=False)
    books.replays.run_once(REPEATABLE, lambda: StoredReply(200, b"first"))
    other = RepeatableRequest(str(account_id), route, key, b"r" * 32)
    assert books.replays.run_once(other, lambda: StoredReply(200, b"second"))[1] is False
    with pytest.raises(OtherRequest):
        books.replays.run_once(
            RepeatableRequest("1", "/route", "key", b"o" * 32), lambda: StoredReply(200, b"")
        )


def test_the_size_is_that_of_database_and_log(books: SqliteBooks, tmp_path: Path) -> None:
    names = ("gateway.db", "gateway.db-wal")
    assert books.measure() == tuple((tmp_path / name).stat().st_size for name in names)
    (tmp_path / "gateway.db-wal").rename(tmp_path / "aside")
    assert books.measure()[1] == 0


def test_a_ledger_that_cannot_be_written_can_be_backed_up(
    books: SqliteBooks, tmp_path: Path
) -> None:
    books.wait_for_others(1)
    with closing(connect(tmp_path / "gateway.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        assert books.back_up(tmp_path / "copy.db") == (tmp_path / "copy.db").stat().st_size
    assert books.events.find_last("ledger.backup") is None


async def test_a_change_is_in_force_where_a_process_serves(tmp_path: Path) -> None:
    """Without one there is nothing to wait for; `IN_FORCE_SECONDS` is more than the pause of polls."""
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        with closing(SqliteBooks(place.path)) as books:
            books.keys.revoke(place.key_id)
            await asyncio.to_thread(books.wait_in_force)
        await until(lambda: key.revoked_ms is not None)
    assert IN_FORCE_SECONDS >= 2 * POLL_SECONDS
