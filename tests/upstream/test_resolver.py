"""Addresses of providers: look-ups are shared, kept, and hold up nobody."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pytest

from gateway.upstream.resolver import Address, Resolver, look_up
from tests.support.rows import each_row
from tests.support.waiting import until

FRESH_SECONDS: Final = 30.0

HOST: Final = "provider.test"
OLD: Final[Address] = (socket.AF_INET, ("192.0.2.1", 80))
NEW: Final[Address] = (socket.AF_INET, ("192.0.2.2", 80))
SECONDS: Final = 30.0
HANGING: Final = 64
"""More than asyncio's own executor has threads."""


@dataclass(slots=True)
class NameServer:
    """Answers in turn; while it is not `awake` it hangs."""

    answers: list[Sequence[Address] | Exception] = field(default_factory=lambda: [[OLD]])
    asked: int = 0
    awake: threading.Event = field(default_factory=threading.Event)

    def __call__(self, host: str, port: int) -> Sequence[Address]:
        assert (host, port) == (HOST, 80)
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        self.awake.wait(SECONDS)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def server() -> Iterator[NameServer]:
    server = NameServer()
    server.awake.set()
    yield server
    server.awake.set()


async def resolve(resolver: Resolver) -> Sequence[Address]:
    async with asyncio.timeout(SECONDS):
        return await resolver.resolve()


def age(resolver: Resolver) -> None:
    resolver._fresh_until -= FRESH_SECONDS


async def test_all_who_ask_at_once_share_one_look_up(server: NameServer) -> None:
    server.awake.clear()
    resolver = Resolver(HOST, 80, server)
    waiting = asyncio.gather(*(resolve(resolver) for _ in range(9)))
    await until(lambda: server.asked, "the look-up")
    server.awake.set()
    assert await waiting == [[OLD]] * 9
    assert server.asked == 1


async def test_who_gives_up_waiting_stops_no_look_up_of_others(server: NameServer) -> None:
    server.awake.clear()
    resolver = Resolver(HOST, 80, server)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(resolver.resolve(), 0.01)
    server.awake.set()
    assert await resolve(resolver) == [OLD]
    assert server.asked == 1


async def test_a_name_server_that_hangs_stalls_no_other_provider(server: NameServer) -> None:
    stuck = NameServer()
    waiting = asyncio.gather(*(Resolver(HOST, 80, stuck).resolve() for _ in range(HANGING)))
    await until(lambda: stuck.asked == HANGING, "all to hang")
    assert await resolve(Resolver(HOST, 80, server)) == [OLD]
    stuck.awake.set()
    await waiting


async def test_an_answer_is_used_until_it_is_old_or_in_doubt(server: NameServer) -> None:
    server.answers = [[OLD], [NEW]]
    resolver = Resolver(HOST, 80, server)
    assert [await resolve(resolver) for _ in range(3)] == [[OLD]] * 3
    age(resolver)
    assert [await resolve(resolver) for _ in range(3)] == [[NEW]] * 3
    assert server.asked == 2
    resolver.doubt()
    await resolve(resolver)
    assert server.asked == 3


async def test_the_last_good_answer_is_kept_where_a_look_up_fails(
    server: NameServer, caplog: pytest.LogCaptureFixture
) -> None:
    """That it is used is logged when it begins; an empty answer is none."""
    server.answers = [[OLD], socket.gaierror(socket.EAI_AGAIN, "later"), [], [NEW]]
    resolver = Resolver(HOST, 80, server)
    found = []
    for _ in range(4):
        found.append(await resolve(resolver))
        age(resolver)
    assert found == [[OLD], [OLD], [OLD], [NEW]]
    assert [one.message.split(";")[0] for one in caplog.records] == [f"{HOST} cannot be resolved"]


async def test_the_last_good_answer_is_used_while_a_look_up_hangs(server: NameServer) -> None:
    server.answers = [[OLD], [NEW]]
    resolver = Resolver(HOST, 80, server)
    await resolve(resolver)
    age(resolver)
    server.awake.clear()
    assert [await resolve(resolver) for _ in range(3)] == [[OLD]] * 3
    assert server.asked == 2
    server.awake.set()
    await until(lambda: resolver._running is None, "the look-up to end")
    assert await resolve(resolver) == [NEW]


async def test_the_first_failure_is_raised_and_the_host_looked_up_again(server: NameServer) -> None:
    server.answers = [socket.gaierror(socket.EAI_NONAME, "none"), [], [NEW]]
    resolver = Resolver(HOST, 80, server)
    for _ in range(2):
        with pytest.raises(OSError, match=r"none|no address"):
            await resolve(resolver)
    assert await resolve(resolver) == [NEW]


async def test_an_address_needs_no_look_up(server: NameServer) -> None:
    for host in ("127.0.0.1", "::1"):
        ((_, address),) = await resolve(Resolver(host, 80, server))
        assert address[:2] == (host, 80)
    assert server.asked == 0


@each_row("host", ["a" * 64, "a..b", "\0", "\ud800"])
async def test_what_no_host_can_be_called_is_an_ordinary_failure(host: str) -> None:
    with pytest.raises((OSError, ValueError)):
        await resolve(Resolver(host, 80))


def test_a_look_up_may_outlive_its_loop() -> None:
    server = NameServer()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(Resolver(HOST, 80, server).resolve(), 0.01)

    before = set(threading.enumerate())
    asyncio.run(give_up())
    (thread,) = set(threading.enumerate()) - before
    assert thread.daemon  # nor does it hold up the end of the process
    server.awake.set()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_the_system_knows_where_this_machine_is() -> None:
    assert (socket.AF_INET, ("127.0.0.1", 80)) in look_up("localhost", 80)
