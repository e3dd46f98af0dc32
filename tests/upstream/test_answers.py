"""A provider's 200: refused if nobody can read it, and counted until it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest

from gateway.dialects.exchanges import EXCHANGES
from gateway.errors import UpstreamError
from gateway.upstream.attempt import Attempt, CollectedBody, Response
from gateway.upstream.forwarder import HttpForwarder
from tests.support.config import Places
from tests.support.records import make_provider
from tests.support.replies import completion, dumps, http
from tests.support.upstream import ScriptedUpstream, Wait
from tests.support.waiting import until

KEYS: Final = ("sk-first-0123456789aaaa", "sk-second-0123456789bbbb")


@pytest.fixture
async def forwarder(
    places: Places,
    alpha: ScriptedUpstream,  # noqa: ARG001 - it listens
) -> AsyncIterator[HttpForwarder]:
    one = HttpForwarder(make_provider(base_url=places.urls["alpha"], api_keys=KEYS))
    yield one
    one.close()


async def open_answer(forwarder: HttpForwarder) -> Response:
    attempt = Attempt(forwarder.provider, affinity="a")
    return await forwarder.open(EXCHANGES["chat"]["chat"], b"{}", {}, attempt)


def count(forwarder: HttpForwarder) -> int:
    return sum(key.in_flight for key in forwarder.keys)


async def test_it_counts_for_its_key_until_it_is_closed(
    forwarder: HttpForwarder, alpha: ScriptedUpstream
) -> None:
    alpha.always([http(dumps(completion()))])
    first, second = await open_answer(forwarder), await open_answer(forwarder)
    assert sorted(key.in_flight for key in forwarder.keys) == [0, 2], "one affinity, one key"
    await first.deliver(CollectedBody())
    for _ in range(2):  # closing again changes nothing
        first.close()
        assert count(forwarder) == 1
    second.close()
    assert count(forwarder) == 0


async def test_it_counts_while_its_head_is_waited_for(
    forwarder: HttpForwarder, alpha: ScriptedUpstream
) -> None:
    """A JSON reply has its head only when the model is done."""
    go_on = asyncio.Event()
    alpha.always([Wait(go_on), http(dumps(completion()))])
    opening = asyncio.get_running_loop().create_task(open_answer(forwarder))
    await until(lambda: alpha.exchanges, "the request")
    assert count(forwarder) == 1
    go_on.set()
    (await opening).close()
    assert count(forwarder) == 0
    go_on.clear()
    left = asyncio.get_running_loop().create_task(open_answer(forwarder))
    await until(lambda: len(alpha.exchanges) > 1, "the next request")
    left.cancel()
    await asyncio.wait([left])
    assert count(forwarder) == 0


async def test_a_strange_encoding_is_refused_and_counted_no_more(
    forwarder: HttpForwarder, alpha: ScriptedUpstream
) -> None:
    alpha.always([http(b"\x1f\x8b", headers={"Content-Encoding": "gzip"})])
    with pytest.raises(UpstreamError, match="an encoding nobody asked for"):
        await open_answer(forwarder)
    assert count(forwarder) == 0
