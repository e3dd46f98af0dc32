"""The server's loop: its selector answers like the standard library's, its clock is monotonic."""

from __future__ import annotations

import asyncio
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest

from gateway.server.loop import Loop, Selector
from tests.support.rows import each_row

BOTH = selectors.EVENT_READ | selectors.EVENT_WRITE
SCENES: dict[str, Callable[[socket.socket, socket.socket], object]] = {
    "nothing came": lambda _own, _peer: None,
    "bytes came": lambda _own, peer: peer.send(b"x"),
    "the peer ended its side": lambda _own, peer: peer.shutdown(socket.SHUT_WR),
    "the peer left": lambda _own, peer: peer.close(),
    "both ended": lambda own, _peer: own.shutdown(socket.SHUT_RDWR),
    "the buffer is full": lambda own, _peer: fill(own),
    "bytes came before the peer left": lambda _own, peer: say_and_leave(peer),
}


def fill(own: socket.socket) -> None:
    own.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            own.send(b"x" * 65536)


def say_and_leave(peer: socket.socket) -> None:
    peer.send(b"x")
    peer.close()


def ask(selector: selectors.BaseSelector, own: socket.socket, wanted: int) -> list[int]:
    selector.register(own, wanted)
    ready = selector.select(0)
    assert all(key.fileobj is own for key, _ in ready)
    selector.unregister(own)
    assert selector.select(0) == []
    return [events for _, events in ready]


@each_row("wanted", [selectors.EVENT_READ, selectors.EVENT_WRITE, BOTH])
@each_row("scene", SCENES.values())
def test_a_socket_is_ready_for_the_same(
    scene: Callable[[socket.socket, socket.socket], object], wanted: int
) -> None:
    with ExitStack() as stack:
        own, peer = (stack.enter_context(one) for one in socket.socketpair())
        scene(own, peer)
        theirs, ours = selectors.EpollSelector(), Selector()
        stack.callback(theirs.close)
        stack.callback(ours.close)
        assert ask(ours, own, wanted) == ask(theirs, own, wanted)


def test_a_wait_is_as_long_as_asked() -> None:
    with Selector() as selector:
        began = time.monotonic()
        assert selector.select(0.0301) == []
        assert time.monotonic() - began >= 0.03


def test_a_socket_that_was_modified_is_asked_for_what_it_wants_since() -> None:
    own, peer = socket.socketpair()
    with own, peer, Selector() as selector:
        selector.register(own, selectors.EVENT_READ, "data")
        assert selector.select(0) == []
        selector.modify(own, selectors.EVENT_WRITE, "data")
        ((key, events),) = selector.select()
        assert (key.data, events) == ("data", selectors.EVENT_WRITE)


def test_the_loop_runs_on_it() -> None:
    async def act() -> float:
        began = asyncio.get_running_loop().time()
        assert began == pytest.approx(time.monotonic(), abs=1)
        await asyncio.sleep(0.01)
        return asyncio.get_running_loop().time() - began

    with asyncio.Runner(loop_factory=lambda: Loop(Selector())) as runner:
        assert runner.run(act()) >= 0.01
