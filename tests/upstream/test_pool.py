"""The connections kept for a provider: the latest serves first, and none is given in doubt."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest
from yarl import URL

from gateway.upstream.connection import Connection
from gateway.upstream.dial import Dialer, InsecureConnection, Pool, Unreachable
from tests.support.config import Places
from tests.support.rows import each_row

URL_: Final = URL("http://127.0.0.1:1/v1")


@dataclass(eq=False)
class Kept:
    """An idle connection."""

    usable: bool = True
    closed: bool = False

    def close(self) -> None:
        self.closed = True


def put(pool: Pool, *kept: Kept) -> None:
    for one in kept:
        pool.put(cast("Connection", one))


def get(pool: Pool) -> Any:
    return pool.take()


async def test_the_connection_used_last_serves_first() -> None:
    pool, first, last = Pool(Dialer(URL_, 5)), Kept(), Kept()
    put(pool, first, last)
    assert [get(pool), get(pool)] == [last, first]
    pool.close()


async def test_one_that_cannot_serve_is_passed_over() -> None:
    pool, good, bad, lost = Pool(Dialer(URL_, 5)), Kept(), Kept(usable=False), Kept()
    put(pool, good, bad, lost)
    pool.discard(cast("Connection", lost))
    pool.discard(cast("Connection", lost))
    assert get(pool) is good
    pool.close()


async def test_a_fresh_one_is_made_although_others_are_idle(places: Places) -> None:
    pool, idle = Pool(Dialer(URL(places.urls["refused"]), 5)), Kept()
    put(pool, idle)
    with pytest.raises(Unreachable):
        await pool.connect()
    assert get(pool) is idle
    pool.close()


async def test_closing_closes_what_is_idle_and_ends_the_timer() -> None:
    pool, kept = Pool(Dialer(URL_, 5)), Kept()
    put(pool, kept)
    pool.close()
    assert kept.closed
    assert pool._expiry is not None
    assert pool._expiry.cancelled()


async def test_the_oldest_are_closed_when_their_time_has_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, old, young = Pool(Dialer(URL_, 5)), Kept(), Kept()
    monkeypatch.setattr("gateway.upstream.dial.IDLE_SECONDS", 0)
    put(pool, old)
    monkeypatch.setattr("gateway.upstream.dial.IDLE_SECONDS", 600)
    put(pool, young)
    while not old.closed:  # noqa: ASYNC110 - a timer of the loop
        await asyncio.sleep(0)
    assert not young.closed
    assert get(pool) is young
    pool.close()


@each_row(("place", "error"), [("refused", Unreachable), ("black-hole", Unreachable)])
async def test_who_cannot_be_reached_in_time_is_told(
    places: Places, place: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await Pool(Dialer(URL(places.urls[place]), 0.2)).connect()


async def test_a_provider_that_speaks_no_tls_is_insecure(places: Places, alpha: object) -> None:
    """The request is not sent in the clear."""
    assert alpha
    with pytest.raises(InsecureConnection):
        await Pool(Dialer(URL(places.urls["tls"]), 30)).connect()


async def test_what_comes_back_after_the_close_is_closed() -> None:
    """A provider that a reload took away may still send."""
    pool, late = Pool(Dialer(URL_, 5)), Kept()
    pool.close()
    put(pool, late)
    assert late.closed
    assert pool._expiry is None
