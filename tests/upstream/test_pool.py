"""Connections that are idle: which one serves next, and when they are closed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest
from yarl import URL

from gateway.upstream.connection import Connection
from gateway.upstream.dial import Dialer
from gateway.upstream.pool import Pool

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
    assert bad.closed
    pool.close()


async def test_closing_closes_what_is_idle_and_ends_the_timer() -> None:
    pool, kept, loop = Pool(Dialer(URL_, 5)), Kept(), asyncio.get_running_loop()
    put(pool, kept)
    assert pool._expiry is not None
    assert pool._expiry.when() - loop.time() == pytest.approx(15, abs=5), "its time"
    pool.close()
    assert kept.closed
    assert pool._expiry.cancelled()


async def test_the_oldest_are_closed_when_their_time_has_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, old, young = Pool(Dialer(URL_, 5)), Kept(), Kept()
    monkeypatch.setattr("gateway.upstream.pool.IDLE_SECONDS", 0)
    put(pool, old)
    monkeypatch.setattr("gateway.upstream.pool.IDLE_SECONDS", 600)
    put(pool, young)
    while not old.closed:  # noqa: ASYNC110 - a timer of the loop
        await asyncio.sleep(0)
    assert not young.closed
    assert get(pool) is young
    pool.close()


async def test_what_comes_back_after_the_close_is_closed() -> None:
    """A provider that a reload took away may still send."""
    pool, late = Pool(Dialer(URL_, 5)), Kept()
    pool.close()
    put(pool, late)
    assert late.closed
    assert pool._expiry is None
