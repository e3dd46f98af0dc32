"""The relay alone: what reaches the sink, and what is left to do when the caller is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import pytest
from chat_kit import DONE, events, make_context, role, stop, text
from chat_kit import chunk as make_chunk
from support.config import Kind, make_places, write_config

from gateway.billing import Bill
from gateway.config import Config, Provider, load_config
from gateway.connection import Receiver
from gateway.dialects.base import Exchange, Target
from gateway.dialects.chat import ChatDialect
from gateway.dialects.exchanges import EXCHANGES
from gateway.errors import GatewayError, UpstreamError
from gateway.forwarder import Answer, Attempt
from gateway.relay import CallerLeft, Relay
from gateway.routing import Candidate, Lane
from gateway.sink import Sink
from gateway.state import Call

BEGUN: Final = events(make_chunk(role()), make_chunk(text("Hallo")))
FINISHED: Final = BEGUN + events(make_chunk(stop()))
Body = list[bytes | asyncio.Event]
MORE: Final = events(make_chunk(text("JUNK")))


@dataclass(slots=True)
class FakeSink:
    """A caller's side that takes everything."""

    sent: bytes = b""
    opened: bool = False
    closed: bool = False

    async def open(self) -> None:
        self.opened = True

    def send(self, data: bytes) -> bool:
        self.sent += data
        return True

    async def ready(self) -> None:
        return


class FakeBill:
    async def wait_admitted(self) -> None:
        return


class FakeWork:
    def write_payload(self, candidate: Candidate) -> bytes:  # noqa: ARG002 - the protocol's
        return b"{}"

    def pick_headers(self, candidate: Candidate) -> Mapping[str, str]:  # noqa: ARG002 - likewise
        return {}


@dataclass(slots=True)
class Script:
    """A forwarder and its answer: a body with what is waited for in it, then its end, or an error."""

    provider: Provider
    pieces: Body
    error: GatewayError | None = None
    closed: bool = False

    async def open(
        self,
        exchange: Exchange,  # noqa: ARG002 - the protocol's
        body: bytes,  # noqa: ARG002
        headers: Mapping[str, str],  # noqa: ARG002
        attempt: Attempt,
    ) -> Answer:
        attempt.connected = True
        attempt.on_connect()
        return self

    async def fetch(self, exchange: Exchange, body: bytes, headers: Mapping[str, str]) -> bytes:
        raise NotImplementedError

    async def deliver(self, receiver: Receiver) -> None:
        for piece in self.pieces:
            if isinstance(piece, bytes):
                receiver.receive(piece)
            else:
                await piece.wait()
        if self.error is not None:
            raise self.error

    def redact(self, error: GatewayError) -> GatewayError:
        return error

    def close(self) -> None:
        self.closed = True


@dataclass(slots=True)
class Scene:
    """A relay with its fake caller and its fake provider."""

    relay: Relay
    sink: FakeSink
    script: Script

    async def run(self) -> None:
        """The upstream's side, to its end."""
        target = Target(upstream_model="theirs")
        candidate = Candidate(Lane(self.script), EXCHANGES["chat"]["chat"], target)
        await self.relay.run((candidate,))

    async def begin(self) -> None:
        """What the caller's side does with the first event."""
        await self.relay.open_sink()
        self.relay.flow()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    file = tmp_path / "gateway.toml"
    kinds = {"plain": Kind(("alpha",), 1)}
    file.write_text(write_config(make_places({"alpha": 1}), port=1, kinds=kinds))
    return load_config(file, {})


def set_scene(config: Config, pieces: Body, error: GatewayError | None = None) -> Scene:
    (provider,) = config.providers.values()
    sink, dialect = FakeSink(), ChatDialect()
    relay = Relay(
        call=Call("req_1", dialect, 0.0, 0),
        bill=cast("Bill", FakeBill()),
        dialect=dialect,
        context=make_context(),
        work=FakeWork(),
        sink=cast("Sink", sink),
        server=config.server,
    )
    return Scene(relay, sink, Script(provider, pieces, error))


ENDINGS: Final[dict[str, tuple[Body, GatewayError | None]]] = {
    "complete": ([FINISHED + DONE], None),
    "broken off": ([BEGUN], None),
    "failed": ([], UpstreamError("no")),
}


@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize("seconds", [None, 60.0])
async def test_draining_what_is_over_returns_at_once(
    config: Config, name: str, seconds: float | None
) -> None:
    """The caller left first, then the provider ended: nothing would ever end a second wait."""
    pieces, error = ENDINGS[name]
    scene = set_scene(config, pieces, error)
    scene.relay.end(CallerLeft())
    await scene.run()
    assert isinstance(scene.relay.ending, CallerLeft)
    scene.relay.drain(seconds)
    assert scene.relay.done.done()
    assert (scene.relay.ending is None) == (name == "complete")
    assert scene.sink.sent == b""


async def test_draining_what_goes_on_waits_for_its_end(config: Config) -> None:
    scene = set_scene(config, [FINISHED, DONE])
    scene.relay.end(CallerLeft())
    scene.relay.drain(None)
    assert not scene.relay.done.done()
    await scene.run()
    assert scene.relay.done.done()
    assert scene.relay.ending is None
    assert (scene.sink.sent, scene.script.closed) == (b"", True)


BEHIND: Final = {
    "another end": DONE,
    "more text": MORE,
    "an error": b'data: {"error":{"message":"JUNK"}}\n\n',
    "no event": b"\x00JUNK",
}


@pytest.mark.parametrize("name", BEHIND)
async def test_nothing_is_sent_behind_the_terminal_event(config: Config, name: str) -> None:
    """The last bytes are for the caller's side to send, once the charge is committed."""
    sent = asyncio.Event()
    body: Body = [BEGUN, sent, events(make_chunk(stop())), DONE, BEHIND[name]]
    scene = set_scene(config, body)
    run = asyncio.create_task(scene.run())  # noqa: TID251 - is awaited here
    await scene.relay.first
    await scene.begin()
    sent.set()
    await run
    assert scene.relay.ending is None
    assert b"Hallo" in scene.sink.sent
    assert DONE not in scene.sink.sent
    assert b"JUNK" not in scene.sink.sent
