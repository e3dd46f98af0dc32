"""Limits in force: rates, concurrency, what is in flight, slow bodies."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.admin import keys
from gateway.api.limits import Rates
from gateway.api.state import Gateway
from gateway.config.records import Limits
from gateway.errors import RateLimited
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.key_records import KeyTerms, Rate, Terms
from gateway.ledger.opening import open_books
from tests.support.chat import check_error, say
from tests.support.client import request
from tests.support.config import PATIENT, Kind
from tests.support.process import CHAT
from tests.support.replies import completion, json_reply
from tests.support.rows import each_row
from tests.support.running import Launch
from tests.support.seed import Caller, Seed
from tests.support.stage import Stage
from tests.support.upstream import Wait

WAIT_SECONDS = 30.0


async def test_concurrency_of_an_account_is_that_of_all_its_keys(stage: Stage) -> None:
    """Holders make keys, so a key's limit is no limit to its holder; an account's is."""
    gate = asyncio.Event()
    stage.alpha.always([Wait(gate), *json_reply(completion())])
    caller, body = stage.callers["two-at-a-time"], say("plain/1")
    with open_books(stage.gateway.database) as books:
        second = keys.add_key(books, caller.account).secret
    stage.gateway.canaries.append(second.encode())
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(stage.chat(body, key=key)) for key in (caller.key, second)]
        await stage.alpha.wait_for(2)
        refused = [await stage.chat(body, key=key) for key in (caller.key, second)]
        gate.set()
    for reply in refused:
        message = check_error(reply, 429, "rate_limit_exceeded")
        assert message.startswith("This account has 2 requests in flight, as many as it may")
    assert [task.result().status for task in tasks] == [200, 200]
    assert (await stage.chat(body, key=second)).status == 200


async def test_a_raised_limit_is_in_force_for_the_very_next_request(
    stage: Stage, spare: Caller
) -> None:
    stage.alpha.always(json_reply(completion()))
    one, two = say("plain/1"), say("plain/2")

    def edit(**changes: Any) -> None:
        with open_books(stage.gateway.database) as books:
            books.accounts.edit(spare.account, cast("Any", changes))

    edit(requests_per_minute=1, models=("plain/2",))
    async with asyncio.timeout(WAIT_SECONDS):
        while (await stage.chat(one, key=spare.key)).status == 200:
            pass
        while (await stage.chat(two, key=spare.key)).status != 429:
            pass
    edit(requests_per_minute=None)
    check_error(await stage.chat(one, key=spare.key), 403, "model_not_allowed")
    assert (await stage.chat(two, key=spare.key)).status == 200
    edit(models=None)
    assert (await stage.chat(one, key=spare.key)).status == 200


async def test_one_account_leaves_half_of_the_gateway_to_others(
    launch: Launch, stage: Stage
) -> None:
    """Unless it has a limit of its own, such as `free`, which has none."""
    seeds = (Seed("greedy"), Seed("other"), Seed("free", account=Terms(concurrency=0)))
    running = launch(seeds=seeds, server="max_in_flight = 4", limits="")
    gate = asyncio.Event()
    stage.alpha.always([Wait(gate), *json_reply(completion())])
    greedy, other, free = (running.callers[one.name].key for one in seeds)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(running.gateway.chat(greedy, say("plain/0"))) for _ in range(2)]
        await stage.alpha.wait_for(2)
        refused = await running.gateway.chat(greedy, say("plain/0"))
        tasks.append(group.create_task(running.gateway.chat(other, say("plain/0"))))
        await stage.alpha.wait_for(3)
        gate.set()
    message = check_error(refused, 429, "rate_limit_exceeded")
    assert message.startswith("This account has 2 requests in flight, its share of what the")
    assert [task.result().status for task in tasks] == [200] * 3
    assert (await running.gateway.chat(free, say("plain/0"))).status == 200


async def test_concurrency_is_given_back_by_callers_who_leave(stage: Stage) -> None:
    key = stage.callers["one-at-a-time"].key
    model = stage.fresh("abort")
    never = asyncio.Event()
    stage.alpha.play([Wait(never)])
    stage.alpha.always(json_reply(completion()))
    async with stage.chatting(say(model, stream=True), key=key) as call:
        exchange = await stage.alpha.wait_for(1)
        call.reset()
    await asyncio.wait_for(exchange.closed.wait(), 2)
    assert (await stage.chat(say(model), key=key)).status == 200


async def test_beyond_max_in_flight_is_a_503(launch: Launch, stage: Stage) -> None:
    """This is checked before the key's limits and balance, as it is not the caller's fault."""
    running = launch(seeds=(Seed("rich"), Seed("empty", 0)), server="max_in_flight = 2")
    gate = asyncio.Event()
    stage.alpha.always([Wait(gate), *json_reply(completion())])
    rich, empty = running.callers["rich"].key, running.callers["empty"].key
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(running.gateway.chat(rich, say(f"plain/{n}"))) for n in range(2)]
        await stage.alpha.wait_for(2)
        for key in (rich, empty):
            refused = await running.gateway.chat(key, say("plain/0"))
            check_error(refused, 503, "server_is_overloaded")
        gate.set()
    assert [task.result().status for task in tasks] == [200, 200]
    assert (await running.gateway.chat(rich, say("plain/0"))).status == 200


async def test_slow_body_is_a_408(launch: Launch, stage: Stage) -> None:
    """If it falls silent, and if it drips for too long."""
    running = launch(server="body_idle_seconds = 0.2\nbody_total_seconds = 0.6")
    key = running.callers["rich"].key
    headers = {"Content-Type": "application/json", "x-api-key": key, "Content-Length": "500"}

    async def drip(count: int) -> None:
        async with running.gateway.connect() as call:
            await call.send(request("POST", CHAT, headers))
            for _ in range(count):
                await call.send(b" ")
                await asyncio.sleep(0.08)
            check_error(await call.read_all(), 408, "request_timeout")

    await asyncio.gather(drip(1), drip(12))
    assert stage.alpha.connections == 0


async def test_provider_at_its_own_limit_is_a_503(launch: Launch, stage: Stage) -> None:
    kind = Kind(("alpha",), 1, PATIENT + "\nmax_concurrency = 1")
    running = launch(kinds={"plain": kind})
    key = running.callers["rich"].key
    gate = asyncio.Event()
    stage.alpha.always([Wait(gate), *json_reply(completion())])
    async with asyncio.TaskGroup() as group:
        first = group.create_task(running.gateway.chat(key, say("plain/0")))
        await stage.alpha.wait_for(1)
        for stream in (False, True):
            refused = await running.gateway.chat(key, say("plain/0", stream=stream))
            check_error(refused, 503, "upstream_unavailable")
        gate.set()
    assert first.result().status == 200
    assert stage.alpha.peak == 1


def admit(rates: Rates, now: float) -> None:
    rates.check(now)
    rates.admit()


def make_key(account: Account | None = None, terms: KeyTerms | None = None) -> Key:
    return Key("k", account or Account(1, "a", False, 10**9), terms or KeyTerms(), Line("k"))


def make_services(*, requests: int = 0, share: int = 0) -> Gateway:
    nothing = cast("Any", None)
    routes = cast("Any", SimpleNamespace(close=lambda **_: None, has_sources=False))
    limits, account_limits = Limits(requests, 0, 0), Limits(0, 0, share)
    config = cast("Any", SimpleNamespace(limits=limits, account_limits=account_limits))
    return Gateway(config, nothing, routes, nothing, nothing)


def test_changed_limits_count_anew_and_know_what_is_in_flight() -> None:
    """Requests in flight release the object that counted them."""
    services, key = make_services(requests=1), make_key()
    first = services.find_rates(key, 0.0)
    admit(first, 0.0)
    with pytest.raises(RateLimited):
        admit(first, 0.0)
    key.terms = KeyTerms(name="renamed")
    with pytest.raises(RateLimited):
        admit(services.find_rates(key, 0.0), 0.0)
    key.terms = KeyTerms(requests_per_minute=2, concurrency=2)
    second = services.find_rates(key, 0.0)
    assert second is first
    admit(second, 0.0)
    with pytest.raises(RateLimited, match="2 requests in flight"):
        admit(second, 0.0)
    second.release()
    admit(second, 0.0)
    second.release()
    with pytest.raises(RateLimited, match="2 requests per minute"):
        admit(second, 0.0)


def test_keys_have_rates_of_their_own() -> None:
    services = make_services(requests=1)
    account = Account(1, "a", False, 10**9)
    admit(services.find_rates(make_key(account), 0.0), 0.0)
    admit(services.find_rates(make_key(account), 0.0), 0.0)


@each_row("own", [None, 0, 7])
def test_a_key_without_limits_has_the_configured_ones(own: int | None) -> None:
    """0 is a limit of its own: none."""
    key = make_key(terms=KeyTerms(requests_per_minute=own))
    requests = make_services(requests=5).find_rates(key, 0.0).requests
    assert (requests and requests.limit) == {None: 5, 0: None, 7: 7}[own]


def test_an_account_limits_all_its_keys_together() -> None:
    """A refusal by the account counts nowhere; one by the key does not count for the account."""
    services, account = make_services(share=3), Account(1, "a", False, 10**9)
    account.terms = Terms(requests_per_minute=3)
    busy = make_key(account, KeyTerms(requests_per_minute=1))
    first, other = (services.find_rates(key, 0.0) for key in (busy, make_key(account)))
    admit(first, 0.0)
    with pytest.raises(RateLimited, match="This key may make 1 requests per minute"):
        admit(first, 0.0)
    admit(other, 0.0)
    admit(other, 0.0)
    with pytest.raises(RateLimited, match="This account has 3 requests in flight, its share"):
        admit(other, 0.0)
    first.release()
    with pytest.raises(RateLimited, match="This account may make 3 requests per minute") as refused:
        admit(other, 0.0)
    assert refused.value.retry_after_seconds == pytest.approx(20)
    assert first.above is not None
    assert first.above is other.above
    assert (first.in_flight, other.in_flight, first.above.in_flight) == (0, 2, 2)
    admit(other, 20.001)


def test_an_account_s_own_concurrency_takes_the_place_of_its_share() -> None:
    services, account = make_services(share=1), Account(1, "a", False, 10**9)
    key = make_key(account)
    admit(services.find_rates(key, 0.0), 0.0)
    with pytest.raises(RateLimited, match="its share of what the gateway takes"):
        admit(services.find_rates(key, 0.0), 0.0)
    account.terms = Terms(concurrency=2)
    admit(services.find_rates(key, 0.0), 0.0)
    with pytest.raises(RateLimited, match="2 requests in flight, as many as it may have at once"):
        admit(services.find_rates(key, 0.0), 0.0)
    account.terms = Terms(concurrency=0)
    admit(services.find_rates(key, 0.0), 0.0)


def test_other_defaults_count_for_keys_that_were_used_before() -> None:
    """A limit that stays keeps its count."""
    services, account = make_services(requests=2), Account(1, "a", False, 10**9)
    own, defaulted = make_key(account, KeyTerms(requests_per_minute=1)), make_key(account)
    for key in (own, defaulted):
        admit(services.find_rates(key, 0.0), 0.0)
    other = make_services(requests=3, share=2)
    services.reconfigure(other.config, other.routes)
    assert services.routes is other.routes
    with pytest.raises(RateLimited, match="1 requests per minute"):
        services.find_rates(own, 0.0).check(0.0)
    rates = services.find_rates(defaulted, 0.0)
    assert rates.requests is not None
    assert rates.requests.limit == 3
    with pytest.raises(RateLimited, match="its share"):
        rates.check(0.0)


@each_row(
    ("terms", "rate"),
    [
        (Terms(), None),
        (Terms(requests_per_minute=0), None),
        (Terms(requests_per_minute=6), Rate(6, 0, 0)),
        (Terms(tokens_per_minute=7), Rate(0, 7, 0)),
        (Terms(concurrency=8), Rate(0, 0, 8)),
    ],
)
def test_a_ledger_is_told_limits_but_no_share_of_this_process(
    terms: Terms, rate: Rate | None
) -> None:
    """The share of each process is of its own capacity; the limits are kept until they change."""
    services, account = make_services(share=3), Account(1, "a", False, 10**9, terms=terms)
    key = make_key(account, KeyTerms(requests_per_minute=5))
    found = services.find_rates(key, 0.0)
    assert found.above is not None
    assert (found.rate, found.above.rate) == (Rate(5, 0, 0), rate)
    assert services.find_rates(key, 1.0).rate is found.rate
    key.terms = KeyTerms(requests_per_minute=0)
    assert services.find_rates(key, 2.0).rate is None
