"""Which provider is tried and when it is not tried: with a clock of the test's own.

The scenes in `routing.txt` have what happens, and below it what it changes:

    == Failures of a model open its breaker alone
    5 ask p/large failed           five requests whose only route ends so; `wait 30` lets time pass
    ! provider p: model large …    what the log says
    p: large open 30 s, last       what is in flight, which breakers are open, what rests, what is tried last

A request over several routes tells those that were tried, and how it ended. `enter`, `alive` and `leave`
are parts of a request, `visit` is one that says nothing of a model. To write what is told anew, after a
look at what that would change:

    WRITE_ROUTING=1 python -m pytest tests/upstream/test_routing.py && git diff tests/upstream/routing.txt
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from gateway.base.errors import (
    BadRequest,
    GatewayError,
    OutOfResources,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from gateway.dialects.wire.records import Target
from gateway.upstream.forwarder import HttpForwarder
from gateway.upstream.provider import Breaker, ProviderState
from gateway.upstream.routing import Route, Routes, try_routes
from tests.support import records
from tests.support.formats import EXCHANGES

PATH: Final = Path(__file__).with_name("routing.txt")
SCENES: Final = PATH.read_text(encoding="utf-8").split("== ")[1:]
LIMIT: Final = 3
PROVIDER: Final = records.make_provider(max_concurrency=LIMIT)
MODELS: Final = ("large", "small")
ENDS: Final[dict[str, Callable[[str], BaseException | None]]] = {
    "served": lambda _: None,
    "failed": lambda m: UpstreamError(
        f"no {m} by KEY!", next_route=True, blame="model", cause=f"no {m}1"
    ),
    "unreachable": lambda _: UpstreamUnavailable("M", next_route=True, blame="provider"),
    "broke-off": lambda _: UpstreamError("M", blame="reply"),
    "silent": lambda _: UpstreamTimeout("M"),
    "odd": lambda _: UpstreamError("M"),
    "declined": lambda _: UpstreamError("M", next_route=True),
    "refused": lambda _: BadRequest("M"),
    "left": lambda _: asyncio.CancelledError(),
    "a-bug": lambda _: KeyError("M"),
    "no-files": lambda _: OutOfResources("M"),
    "limited": lambda _: UpstreamUnavailable("M", next_route=True, rest_seconds=20.0),
    "limited-long": lambda _: UpstreamUnavailable("M", next_route=True, rest_seconds=600.0),
}
"""How a request ends. `limited` is a 429 that asks for a pause of 20 s."""


def take_out_key(error: GatewayError) -> None:
    error.message = error.message.replace("KEY", "[redacted]")


class Scene:
    """Providers, made when they are named, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.providers: dict[str, ProviderState] = {}
        self.entered: dict[str, deque[Sequence[Breaker]]] = {one: deque() for one in MODELS}
        """The results of `enter`, by model; the first to enter leaves first."""

    def monotonic(self) -> float:
        return self.now

    def find(self, route: str) -> tuple[ProviderState, str]:
        name, _, model = route.partition("/")
        forwarder = SimpleNamespace(
            provider=dataclasses.replace(PROVIDER, name=name), redact=take_out_key
        )
        return self.providers.setdefault(name, ProviderState(cast("Any", forwarder))), model

    async def ask(self, *words: str) -> AsyncIterator[str]:
        """Play a request; the words are each of its routes and how that ends."""
        ends = dict(zip(words[::2], words[1::2], strict=True))
        tried, noted = list[str](), list[str]()
        exchange = EXCHANGES["chat"]["chat"]
        routes = [
            Route("ours", provider, exchange, Target(model))
            for provider, model in map(self.find, ends)
        ]

        async def attempt(route: Route) -> str:
            tried.append(f"{route.provider.name}/{route.target.upstream_model}")
            if error := ENDS[ends[tried[-1]]](route.target.upstream_model):
                raise error
            return f"served by {route.provider.name}"

        try:
            end = await try_routes(routes, attempt, lambda *told: noted.append(": ".join(told)))
        except BaseException as error:  # noqa: BLE001 - told as the end
            end = f"{type(error).__name__} {getattr(error, 'message', '')}"
        if len(routes) == 1:
            expected = ENDS[words[1]]("")
            assert end.startswith(type(expected).__name__ if expected else "served")
        else:
            yield f"tried {', '.join(tried)}: {end}; noted {', '.join(noted) or 'nothing'}"

    async def play(self, step: str) -> list[str]:
        """Play a step; return what it tells."""
        verb, *words = step.split()
        if verb.isdecimal():
            return [await self.play(" ".join(words)) for _ in range(int(verb))][-1]
        if verb == "ask":
            return [line async for line in self.ask(*words)]
        if verb == "wait":
            self.now += float(words[0])
            return []
        (provider, model), *ends = self.find(words[0]), *words[1:]
        end = ENDS[ends[0]](model) if ends else None
        try:
            self.do(provider, verb, model, end)
        except UpstreamError as error:
            return [f"{error.cause}; retry after {error.retry_after_seconds} s"] * (
                error is not end
            )
        return []

    def do(self, provider: ProviderState, verb: str, model: str, end: BaseException | None) -> None:
        if verb == "enter":
            self.entered[model].append(provider.enter(model))
        elif verb == "alive":
            provider.note_alive(model)
        elif verb == "leave":
            provider.leave(model, end, self.entered[model].popleft())
        else:
            with provider.visit(model):
                if end is not None:
                    raise end

    def describe(self, name: str) -> str:
        """Return what is not as in good times."""
        provider = self.providers[name]
        breaker, seconds = provider.describe_breaker()
        troubled = {one[0]: one[1:] for one in provider.list_troubled()}
        told = [f"{provider.in_flight} in flight"] if provider.in_flight else []
        told += [f"{breaker} {seconds} s"] if breaker != "closed" else []
        for model in MODELS:
            state, wait, rest = troubled.get(model, ("closed", 0, 0))
            words = [f"{state} {wait} s"] if state != "closed" else []
            words += [f"rests {rest} s"] if rest else []
            last = provider.comes_last(model)
            words += ["last"] if last else []
            told += [f"{model} {', '.join(words)}"] if words else []
        return f"{name}: {'; '.join(told) or 'well'}"


@pytest.mark.parametrize("text", SCENES, ids=[one.partition("\n")[0] for one in SCENES])
async def test_scenes(
    text: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene, told, before = Scene(), list[str](), dict[str, str]()
    monkeypatch.setattr("gateway.upstream.provider.time", scene)
    _, *lines = text.rstrip("\n").split("\n")
    for step in (line.removeprefix("> ") for line in lines if line.startswith("> ")):
        caplog.clear()
        said = await scene.play(step)
        after = {name: scene.describe(name) for name in scene.providers}
        told += [f"> {step}", *(f"! {one}" for one in caplog.messages), *said]
        told += [line for name, line in after.items() if line != before.get(name, f"{name}: well")]
        before = after
    if "WRITE_ROUTING" in os.environ:
        whole = PATH.read_text(encoding="utf-8")
        new = text.replace("\n".join(lines), "\n".join(told)) if lines else text
        PATH.write_text(whole.replace(text, new), encoding="utf-8")
    assert told == lines


KEYS: Final = ("sk-first-0123456789aaaa", "sk-second-0123456789bbbb")


def test_other_settings_count_what_is_in_flight_by_the_old_ones() -> None:
    forwarder = HttpForwarder(records.make_provider(max_concurrency=LIMIT, api_keys=KEYS))
    forwarder.keys[1].in_flight = 3
    provider = ProviderState(forwarder)
    for _ in range(LIMIT):
        provider.enter("large")
    after = ProviderState(forwarder, provider)
    assert [(key.last4, key.in_flight) for key in after.keys] == [("aaaa", 0), ("bbbb", 3)]
    with pytest.raises(UpstreamUnavailable) as refusal:
        after.enter("large")
    assert (refusal.value.next_route, refusal.value.blame) == (True, "nobody")
    provider.leave("large", None)
    after.enter("large")
    assert after.in_flight == provider.in_flight == LIMIT
    forwarder.close()


def test_providers_that_other_routes_use_too_stay_open() -> None:
    closed: list[str] = []

    def make(name: str) -> ProviderState:
        provider = dataclasses.replace(PROVIDER, name=name)
        forwarder = SimpleNamespace(provider=provider, close=lambda: closed.append(name))
        return ProviderState(cast("Any", forwarder))

    kept, gone = make("kept"), make("gone")
    before = Routes({}, {"kept": kept, "gone": gone}, {})
    after = Routes({}, {"kept": kept, "new": make("new")}, {})
    before.close(but=after)
    assert closed == ["gone"]
    after.close()
    assert closed == ["gone", "kept", "new"]
