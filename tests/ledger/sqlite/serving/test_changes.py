"""The table `changes`: what other processes changed, until the next server has read everything."""

from __future__ import annotations

from pathlib import Path

from gateway.admin import accounts
from gateway.ledger.opening import open_ledger
from gateway.ledger.serving.queue import LINGER_SECONDS
from gateway.ledger.serving.writer import POLL_SECONDS
from tests.ledger.kit import make_place, query


async def test_changes_are_cleared_at_the_start_and_their_numbers_never_return(
    tmp_path: Path,
) -> None:
    place = make_place(tmp_path, credit_nano=5000)
    with accounts.open_books(place.path) as books:
        for _ in range(8):
            accounts.credit(books, "a", 250)
    (before,) = query(place.path, "SELECT max(seq) FROM changes")
    async with open_ledger(place.path):
        assert query(place.path, "SELECT count(*) FROM changes") == [(0,)]
        with accounts.open_books(place.path) as books:
            accounts.credit(books, "a", 1)
        (after,) = query(place.path, "SELECT min(seq) FROM changes")
    assert isinstance(before[0], int)
    assert after == (before[0] + 1,)


def test_the_server_looks_often_enough_for_a_second() -> None:
    """Others' changes are to be in force within a second, which a busy machine may exceed."""
    assert 2 * (POLL_SECONDS + LINGER_SECONDS) <= 1
