"""Both sides of a life: a provider that answers, breaks off, refuses or hangs, and a caller that reads or leaves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from gateway.base.errors import BadRequest, GatewayError, UpstreamError, UpstreamUnavailable
from gateway.base.turns import spawn
from gateway.config.records import Provider
from gateway.dialects.messages.stream import STOP
from gateway.upstream.attempt import Attempt
from gateway.upstream.receivers import Receiver, Wants
from tests.api.lives.ledger import WatchedLedger
from tests.api.lives.loop import DELAYS, Log
from tests.dialects.chat.kit import DONE, chunk, dump, event, role, stop, text
from tests.support.replies import completion

ERROR: Final = b'data: {"error": {"message": "the model crashed"}}\n\n'
TOOL: Final = {
    "tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f"}}]
}
NAMELESS: Final = {"tool_calls": [{"index": 0, "id": "c", "function": {"arguments": "{}"}}]}
"""A call that no messages reply can hold."""
USAGE: Final = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
COMPLETION: Final = dump(completion("Hallo", usage=USAGE) | {"model": "theirs"})
CUT_SHORT: Final = COMPLETION.replace(b'"stop"', b"null")


class FakeResponse:
    """The response that an `Attempt` watches, and its response."""

    def __init__(self) -> None:
        self.body_reads = 0
        self.awaits_provider = True
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, *_: object) -> FakeResponse:
        return self

    def fail(self, error: Exception) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)
            self.failed.exception()

    async def sleep(self, seconds: float) -> None:
        """Wait, or raise the error that `fail` was called with."""
        await asyncio.wait((self.failed,), timeout=seconds)
        if self.failed.done():
            self.failed.result()


@dataclass(slots=True)
class FakeForwarder:
    """A forwarder and its reply."""

    provider: Provider
    dice: random.Random
    log: Log
    stream: bool
    response: FakeResponse | None = None
    closed: int = 0
    opened: int = 0
    tried: bool = False
    is_caller_gone: Callable[[], bool] = lambda: False

    async def send(self, attempt: Attempt) -> None:
        self.tried = True
        self.log.check(not self.is_caller_gone(), "a route is tried for a caller that left")
        await asyncio.sleep(self.dice.choice(DELAYS))
        if self.dice.random() < 0.1:
            raise UpstreamUnavailable("unreachable", next_route=True)
        response = self.response = FakeResponse()
        attempt.start(cast("Any", response), b"")
        try:
            await self._answer(attempt, response)
        finally:
            attempt.detach()

    async def _answer(self, attempt: Attempt, response: FakeResponse) -> None:
        self.log.note("sent")
        await response.sleep(self.dice.choice((*DELAYS, 9.0)))
        kind = self.dice.choices(("answer", "refused", "rejected", "broken"), (85, 6, 3, 6))[0]
        if kind != "answer":
            self.log.note(kind)
        if kind in {"refused", "rejected"}:
            attempt.life.note_declined()
        if kind == "refused":
            raise UpstreamError("status 500", next_route=True)
        if kind == "rejected":
            raise BadRequest("not like this")
        if kind == "broken":
            raise UpstreamError("broke off")
        self.opened += 1
        try:
            await self._hand_over(attempt.open_reply(""), response)
        finally:
            self.closed += 1

    async def _hand_over(self, receiver: Receiver, response: FakeResponse) -> None:
        for piece in self._write_body():
            await response.sleep(
                self.dice.choice((*DELAYS, 9.0) if self.dice.random() < 0.1 else DELAYS)
            )
            response.body_reads += 1
            wants = receiver.receive(piece)
            if wants is Wants.NOTHING:
                return
            if wants is Wants.ROOM:
                response.awaits_provider = False
                await receiver.unblock()
                response.awaits_provider = True
        if self.dice.random() < 0.08:
            raise UpstreamError("broke off")
        await response.sleep(0.0)
        receiver.end()

    def redact(self, error: GatewayError) -> GatewayError:
        return error

    def _write_body(self) -> list[bytes]:
        whole = COMPLETION if self.dice.random() < 0.7 else CUT_SHORT
        body = self._write_stream() if self.stream else [whole[:40], whole[40:]]
        if self.stream and self.dice.random() < 0.1:
            body = [whole]  # `stream` ignored
        if self.dice.random() < 0.25:
            body = body[: self.dice.randrange(len(body) + 1)]  # cut
        if self.dice.random() < 0.07:
            body.insert(self.dice.randrange(len(body) + 1), ERROR)
        if self.dice.random() < 0.3:
            body = [b"".join(body)]
        return body

    def _write_stream(self) -> list[bytes]:
        deltas = [text("Hal"), text("lo")] if self.dice.random() < 0.5 else []
        if not deltas and self.dice.random() < 0.85:
            tool = self.dice.choice((TOOL, NAMELESS, NAMELESS))
            deltas = [{"index": 0, "delta": tool, "finish_reason": None}]
        chunks = [chunk(role()), *(chunk(delta) for delta in deltas), chunk(stop())]
        body = [b": comment\n\n", *map(event, chunks), event(chunk(usage=USAGE)), DONE]
        return body[self.dice.randrange(2) :]


STALL_SECONDS: Final = 3.0
COMMENT_SECONDS: Final = 1.0


class FakeSink:
    """A caller that reads, stalls or leaves as its script says."""

    unread_bytes = 0

    def __init__(self, ledger: WatchedLedger, dice: random.Random, log: Log) -> None:
        loop = asyncio.get_running_loop()
        self._ledger = ledger
        self._log = log
        self._wait_admitted = partial(ledger.wait_admitted, ledger.holds[0])
        self._dice = dice
        self._loop = loop
        self.opened = False
        self.lost = False
        self._flowing = False
        self._over = False
        self._stalled_since: float | None = None
        self._gone: asyncio.Event = asyncio.Event()
        self._stalls = dice.random() < 0.2
        self._pending: list[bytes] = []
        self.sent: list[bytes] = []
        self.last: str | None = None
        self._comment_due = loop.time() + COMMENT_SECONDS
        if dice.random() < 0.45:
            loop.call_later(dice.choice((0.0, 0.01, 0.2, 1.0, 3.0, 8.0)), self.leave)

    def leave(self) -> None:
        if not self.lost and not self._over:
            self._log.note("the caller leaves")
        self.lost = True
        self._gone.set()

    async def begin(self) -> None:
        await self._open()
        self._flowing = True
        self.send(b"".join(self._pending))

    def send(self, data: bytes) -> bool:
        if not self._flowing:
            self._pending.append(data)
            return False
        self._log.check(self.last is None, "events are sent behind the end")
        self._comment_due = self._loop.time() + COMMENT_SECONDS
        if not self.lost:
            self.sent.append(data)
        return self._dice.random() < 0.8

    async def unblock(self) -> None:
        self._stalled_since = self._loop.time()
        seconds = 1000.0 if self._stalls else self._dice.choice(DELAYS)
        try:
            async with asyncio.timeout(seconds):
                await self._gone.wait()
        except TimeoutError:
            return
        finally:
            self._stalled_since = None
        raise ConnectionResetError

    def tick(self, *, mid_event: bool) -> None:  # noqa: ARG002 - no long events here
        since, now = self._stalled_since, self._loop.time()
        if since is not None:
            if now - since >= STALL_SECONDS:
                self.leave()
        elif now >= self._comment_due and not self._over:
            self._comment_due = now + COMMENT_SECONDS
            _ = spawn(self._comment(), name="comment")

    def end(self, data: bytes) -> None:
        if self.lost:
            return
        self._log.check(self.last is None, "there are two ends")
        self.last = "reply" if data in {DONE, STOP} else "error"
        self._over = True
        if self.last == "reply":
            is_complete = self._ledger.committed == "complete"
            self._log.check(is_complete, "the last bytes leave before the charge is committed")

    def abort(self) -> None:
        self._over = True
        self.lost = True
        self._gone.set()

    def close(self) -> None:
        self._over = True

    async def _open(self) -> None:
        if self.opened:
            return
        await self._wait_admitted()
        if self.opened:
            return
        if self.lost or self._over:
            raise ConnectionResetError
        self._log.note("head")
        self.opened = True

    async def _comment(self) -> None:
        try:
            await self._open()
        except (GatewayError, ConnectionError):
            return
        self._log.check(self.opened or self._over or self.lost, "a comment without a head")
