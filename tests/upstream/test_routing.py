"""Which provider is tried and when it is not tried: with a clock of the test's own."""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from gateway.dialects.exchanges import EXCHANGES
from gateway.dialects.records import Target
from gateway.errors import (
    MAX_RETRY_AFTER_SECONDS,
    BadRequest,
    GatewayError,
    OutOfResources,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from gateway.upstream.rests import FAILURES, INSTANT_SECONDS, OPEN_SECONDS
from gateway.upstream.routing import Candidate, ProviderState, Routes, try_routes
from tests.support import records

LIMIT: Final = 3
REST: Final = 20.0
PROVIDER: Final = records.make_provider(max_concurrency=LIMIT)


@dataclass(slots=True)
class Clock:
    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("gateway.upstream.routing.time", clock)
    return clock


@pytest.fixture
def provider() -> ProviderState:
    return make_provider()


def make_provider() -> ProviderState:
    forwarder = SimpleNamespace(provider=PROVIDER, redact=lambda error: error)
    return ProviderState(cast("Any", forwarder))


def lead_to(provider: ProviderState, upstream_model: str = "large") -> Candidate:
    return Candidate("ours", provider, EXCHANGES["chat"]["chat"], Target(upstream_model))


def ignore(route: str, cause: str) -> None:
    """Note no failure."""


async def play(
    provider: ProviderState, error: BaseException | None = None, upstream_model: str = "large"
) -> None:
    """One request over the one route to the provider; it ends with that error."""

    async def attempt(_: Candidate) -> None:
        if error is not None:
            raise error

    await try_routes([lead_to(provider, upstream_model)], attempt, ignore)


async def fail(
    provider: ProviderState, error: BaseException, upstream_model: str = "large"
) -> None:
    with pytest.raises(type(error)):
        await play(provider, error, upstream_model)


def rate_limited(seconds: float) -> UpstreamUnavailable:
    """A 429 as the dialects report it."""
    return UpstreamUnavailable(
        "M", next_route=True, rest_seconds=seconds, retry_after_seconds=seconds
    )  # fmt: skip


FAILED: Final = UpstreamError("M", next_route=True, blame="model")
UNREACHABLE: Final = UpstreamUnavailable("M", next_route=True, blame="provider")
BROKE_OFF: Final = UpstreamError("M", blame="reply")


async def open_breaker(
    provider: ProviderState, error: UpstreamError = FAILED, upstream_model: str = "large"
) -> None:
    for _ in range(FAILURES):
        await fail(provider, error, upstream_model)


# ---- rests ---------------------------------------------------------------------------------------


async def test_a_model_rests_as_long_as_the_provider_asked(
    provider: ProviderState, clock: Clock
) -> None:
    await fail(provider, rate_limited(REST))
    assert provider.is_resting("large")
    assert not provider.is_resting("small")
    clock.now += REST - 1
    assert provider.is_resting("large")
    clock.now += 1
    assert not provider.is_resting("large")


async def test_a_rest_has_an_end_whatever_the_provider_asks(
    provider: ProviderState, clock: Clock
) -> None:
    await fail(provider, rate_limited(10 * MAX_RETRY_AFTER_SECONDS))
    clock.now += MAX_RETRY_AFTER_SECONDS - 1
    assert provider.is_resting("large")
    clock.now += 1
    assert not provider.is_resting("large")


@pytest.mark.usefixtures("clock")
async def test_the_only_route_is_tried_though_it_rests(provider: ProviderState) -> None:
    await fail(provider, rate_limited(REST))
    await play(provider)


async def test_rests_and_breakers_are_told_apart(provider: ProviderState, clock: Clock) -> None:
    assert provider.list_troubled() == []
    await open_breaker(provider, upstream_model="small")
    await fail(provider, rate_limited(REST))
    assert provider.list_troubled() == [
        ("large", "closed", 0, REST),
        ("small", "open", OPEN_SECONDS, 0),
    ]
    assert provider.describe_breaker() == ("closed", 0), "the provider itself works"
    clock.now += max(REST, OPEN_SECONDS)
    assert provider.list_troubled() == [("small", "open", 0, 0)]


# ---- the breakers --------------------------------------------------------------------------------


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("error", [FAILED, UpstreamTimeout("M")])
async def test_failures_of_a_model_open_its_breaker_alone(
    provider: ProviderState, error: UpstreamError
) -> None:
    await open_breaker(provider, error)
    assert provider.is_open("large")
    assert not provider.is_open("small")


@pytest.mark.usefixtures("clock")
async def test_a_provider_that_cannot_be_reached_is_open_for_all_models(
    provider: ProviderState,
) -> None:
    await open_breaker(provider, UNREACHABLE)
    assert provider.is_open("large")
    assert provider.is_open("small")
    assert provider.describe_breaker() == ("open", OPEN_SECONDS)


@pytest.mark.usefixtures("clock")
async def test_the_only_route_is_tried_though_its_breaker_is_open(provider: ProviderState) -> None:
    await open_breaker(provider)
    await play(provider)
    assert not provider.is_open("large"), "it worked"


@pytest.mark.usefixtures("clock")
async def test_a_route_that_rests_or_has_an_open_breaker_comes_last() -> None:
    """The operator's order holds among the others, and among those."""
    providers = [make_provider() for _ in range(4)]
    await open_breaker(providers[0])
    await fail(providers[2], rate_limited(REST))
    routes = [lead_to(one, "large") for one in providers]
    tried: list[ProviderState] = []

    async def attempt(candidate: Candidate) -> None:
        tried.append(candidate.provider)
        raise UpstreamError("M", next_route=True)

    with pytest.raises(UpstreamError):
        await try_routes(routes, attempt, ignore)
    assert tried == [providers[1], providers[3], providers[0], providers[2]]


async def test_replies_that_break_off_at_one_instant_are_one_failure(
    provider: ProviderState, clock: Clock
) -> None:
    await open_breaker(provider, BROKE_OFF)
    assert not provider.is_open("large")
    for _ in range(FAILURES - 1):
        clock.now += INSTANT_SECONDS
        await fail(provider, BROKE_OFF)
    assert provider.is_open("large")


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    "error", [rate_limited(0), BadRequest("M"), UpstreamError("M"), asyncio.CancelledError()]
)
async def test_what_is_not_the_providers_fault_does_not_count(
    provider: ProviderState, error: BaseException
) -> None:
    """A refusal, a rate limit, an error within a well-formed reply, a caller who left."""
    for _ in range(2 * FAILURES):
        await fail(provider, error)
    assert (provider.describe_breaker(), provider.list_troubled()) == (("closed", 0), [])


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("error", [None, BadRequest("M")])
async def test_an_answer_ends_the_counting(
    provider: ProviderState, error: BadRequest | None
) -> None:
    for _ in range(FAILURES - 1):
        await fail(provider, FAILED)
    await (play(provider) if error is None else fail(provider, error))
    for _ in range(FAILURES - 1):
        await fail(provider, FAILED)
    assert not provider.is_open("large")


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("error", [rate_limited(0), asyncio.CancelledError()])
async def test_between_failures_nothing_else_ends_the_counting(
    provider: ProviderState, error: BaseException
) -> None:
    for _ in range(FAILURES - 1):
        await fail(provider, FAILED)
    await fail(provider, error)
    await fail(provider, FAILED)
    assert provider.is_open("large")


@pytest.mark.parametrize("error", [rate_limited(0), asyncio.CancelledError(), KeyError("a bug")])
async def test_a_probe_that_says_nothing_of_the_provider_makes_room_for_another(
    provider: ProviderState, clock: Clock, error: BaseException
) -> None:
    await open_breaker(provider)
    clock.now += OPEN_SECONDS
    assert not provider.is_open("large"), "the next request is the probe"
    await fail(provider, error)
    assert not provider.is_open("large")
    await play(provider)
    assert provider.list_troubled() == []


async def test_one_probe_goes_first_at_a_time(provider: ProviderState, clock: Clock) -> None:
    """The others try this route last, until the probe's reply has begun."""
    await open_breaker(provider)
    clock.now += OPEN_SECONDS
    provider.enter("large")
    assert provider.is_open("large")
    provider.note_alive("large")
    assert not provider.is_open("large"), "a reply that has begun may take an hour"
    provider.leave("large", None)


# ---- requests in flight --------------------------------------------------------------------------


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("error", [None, FAILED, BadRequest("M"), asyncio.CancelledError()])
async def test_a_provider_has_so_many_requests_at_once(
    provider: ProviderState, error: BaseException | None
) -> None:
    for _ in range(LIMIT):
        provider.enter("large")
    assert provider.in_flight == LIMIT
    with pytest.raises(UpstreamUnavailable) as refusal:
        provider.enter("large")
    assert (refusal.value.next_route, refusal.value.blame) == (True, "nobody")
    assert refusal.value.retry_after_seconds == 1.0
    provider.leave("large", error)
    assert provider.in_flight == LIMIT - 1
    provider.enter("large")


def test_providers_that_other_routes_use_too_stay_open() -> None:
    closed: list[str] = []

    def make(name: str) -> ProviderState:
        forwarder = SimpleNamespace(
            provider=dataclasses.replace(PROVIDER, name=name), close=lambda: closed.append(name)
        )
        return ProviderState(cast("Any", forwarder))

    kept, gone = make("kept"), make("gone")
    before = Routes({}, {"kept": kept, "gone": gone}, {})
    after = Routes({}, {"kept": kept, "new": make("new")}, {})
    before.close(but=after)
    assert closed == ["gone"]
    after.close()
    assert closed == ["gone", "kept", "new"]


# ---- routes --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("first", "tried"),
    [
        (None, 1),
        (UpstreamError("M", next_route=True), 2),
        (UpstreamError("M"), 1),
        (UpstreamTimeout("M"), 1),
        (BadRequest("M"), 1),
    ],
)
async def test_the_next_route_is_tried_when_no_work_was_done(
    first: GatewayError | None, tried: int
) -> None:
    routes = [lead_to(make_provider(), "first"), lead_to(make_provider(), "second")]
    seen: list[str] = []

    async def attempt(candidate: Candidate) -> str:
        seen.append(candidate.target.upstream_model)
        if first is not None and len(seen) == 1:
            raise first
        return seen[-1]

    if first is not None and tried == 1:
        with pytest.raises(type(first)):
            await try_routes(routes, attempt, ignore)
    else:
        assert await try_routes(routes, attempt, ignore) == seen[-1]
    assert seen == ["first", "second"][:tried]


@pytest.mark.usefixtures("clock")
async def test_the_last_routes_failure_is_told() -> None:
    routes = [lead_to(make_provider(), "first"), lead_to(make_provider(), "second")]
    noted: list[tuple[str, str]] = []

    async def attempt(candidate: Candidate) -> None:
        name = candidate.target.upstream_model
        raise UpstreamError(f"{len(noted)}: no {name}!", next_route=True, cause=f"no {name}1")

    with pytest.raises(UpstreamError) as last:
        await try_routes(routes, attempt, lambda *failure: noted.append(failure))
    assert last.value.message == "1: no ours!"  # and not by the provider's name of the model
    assert noted == [("p/first", "no first1"), ("p/second", "no second1")]


@pytest.mark.usefixtures("clock")
async def test_a_lack_of_our_own_blames_no_provider_and_the_next_route_is_tried(
    provider: ProviderState,
) -> None:
    for _ in range(FAILURES):
        await fail(provider, OutOfResources("M"))
    assert provider.describe_breaker() == ("closed", 0)
    assert not provider.is_open("large")
    routes = [lead_to(provider), lead_to(make_provider())]

    async def attempt(candidate: Candidate) -> Candidate:
        if candidate is routes[0]:
            raise OutOfResources("M")
        return candidate

    assert await try_routes(routes, attempt, ignore) is routes[1]


@pytest.mark.usefixtures("clock")
async def test_a_visit_obeys_the_provider_and_tells_nothing_of_a_model(
    provider: ProviderState,
) -> None:
    for blame in ("model", "provider"):
        assert not provider.is_open("large")
        for _ in range(FAILURES):
            with pytest.raises(UpstreamError), provider.visit("large"):
                raise UpstreamError("M", blame=blame)
    assert provider.is_open("large")
    for _ in range(LIMIT):
        provider.enter("large")
    with pytest.raises(UpstreamUnavailable), provider.visit("large"):
        pass
    assert provider.in_flight == LIMIT
