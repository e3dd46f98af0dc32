"""Admission: routes that can carry a request and what is said when none can; keys that ended."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from multidict import CIMultiDict

from gateway.admin.keys import store
from gateway.api import keys
from gateway.api.admission import Completion, Prepared, _choose_writable, find_model
from gateway.api.keys import explain_end
from gateway.api.limits import Bucket
from gateway.api.state import LOOKUPS_PER_MINUTE
from gateway.base import ids
from gateway.base.errors import (
    BadRequest,
    LedgerUnavailable,
    ModelNotAllowed,
    UnknownModel,
    UpstreamUnavailable,
)
from gateway.base.money import NANO
from gateway.base.prices import FREE_OF_CHARGE, NOTHING_SPECIAL
from gateway.base.times import DAY_MS
from gateway.base.turns import LargeBodies, Result
from gateway.config.records import Model
from gateway.dialects.wire.records import CompletionRequest, Payload, Target
from gateway.extension import tell_next_step
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.budget_records import Allowance
from gateway.ledger.key_records import EndedKey, KeyTerms, Terms
from gateway.ledger.opening import open_books
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.upstream.routing import Routes
from tests.support.chat import check_error, say
from tests.support.client import connect, request
from tests.support.process import CHAT
from tests.support.records import make_call
from tests.support.rows import each_row
from tests.support.seed import Caller
from tests.support.served import HOLDER, open_served
from tests.support.stage import Stage

AFFINITY_CHARS = 256

CALL = make_call()
MODEL = Model("m", "o", (), 100, 100, None, 0, FREE_OF_CHARGE, frozenset())
REQUEST = CompletionRequest({}, "m", False, False, 1, None, 0, 0)


@dataclass(frozen=True, slots=True)
class FakeExchange:
    """Writes its name, or refuses the request in its name."""

    name: str
    refuses: bool

    def write_request(self, _request: object, _target: object) -> Payload:
        if self.refuses:
            raise BadRequest(f"{self.name} cannot carry this", param=self.name)
        return Payload(self.name.encode(), NOTHING_SPECIAL)


def line_up(*routes: str) -> Any:
    """Routes by name; one whose name begins with `no` refuses the request."""
    exchanges = [FakeExchange(name, refuses=name.startswith("no")) for name in routes]
    return tuple(SimpleNamespace(exchange=one, target=Target("up")) for one in exchanges)


@each_row(
    ("routes", "left"),
    [(("a",), 1), (("a", "no-b"), 2), (("no-a", "b"), 1), (("no-a", "no-b", "c", "no-d"), 2)],
)
def test_the_routes_begin_with_the_first_that_can_carry_it(
    routes: tuple[str, ...], left: int
) -> None:
    lined_up = line_up(*routes)
    left_routes, first = _choose_writable(CALL, REQUEST, MODEL, lined_up)
    assert tuple(left_routes) == lined_up[-left:]
    assert first.data == routes[-left].encode()


def test_when_no_route_can_carry_it_the_first_refusal_is_told() -> None:
    """The first route is the one that the operator prefers."""
    with pytest.raises(BadRequest) as refusal:
        _choose_writable(CALL, REQUEST, MODEL, line_up("no-a", "no-b", "no-c"))
    assert refusal.value.param == "no-a"


@each_row(
    ("named", "affinity"),
    [("talk", "talk"), ("", "k"), (7, "k"), ("long" * 10**6, "long" * (AFFINITY_CHARS // 4))],
)
def test_what_is_hashed_to_choose_a_key_is_short(named: object, affinity: str) -> None:
    """A caller decides how long the name is, and the event loop hashes it."""
    request = replace(REQUEST, body={"prompt_cache_key": named})
    call = make_call(key=Key("k", Account(1, "a", False, 5), KeyTerms(), Line("k")))
    nothing = cast("Any", None)
    work = Completion(call, request, MODEL, (), nothing, CIMultiDict(), nothing)
    assert work.find_affinity() == affinity


class Threads(LargeBodies):
    """Counts pieces of work."""

    begun = 0

    async def run(self, function: Callable[[], Result], owner: Hashable = None) -> Result:
        self.begun += 1
        return await super().run(function, owner)


async def test_a_later_route_that_cannot_carry_it_is_passed_over() -> None:
    """Nobody is to blame: the next route is tried, and the breaker does not count it."""
    _, second, third = routes = line_up("a", "no-b", "c")
    prepared = Prepared(b"written before", cast("Any", None))
    nothing, threads = cast("Any", None), Threads()
    key = Key("k", Account(1, "a", False, 5), KeyTerms(), Line("k"))
    call = make_call(gateway=SimpleNamespace(large_bodies=threads), key=key)
    work = Completion(
        call, replace(REQUEST, is_large=True), MODEL, routes, prepared, CIMultiDict(), nothing
    )
    assert (await work.prepare(third)).data == b"c"
    with pytest.raises(UpstreamUnavailable) as refusal:
        await work.prepare(second)
    assert threads.begun == 2
    threads.close()
    assert (refusal.value.next_route, refusal.value.blame) == (True, "nobody")


async def test_a_model_that_the_account_may_use_since_just_now_is_found() -> None:
    """Before a model is refused, the ledger is asked for what operators have committed."""
    account = Account(1, "a", False, 5, terms=Terms(("other",)))
    key = Key("k", account, KeyTerms(("m",)), Line("k"))

    class FakeLedger:
        allows = False

        async def refresh(self) -> None:
            if self.allows:
                account.terms = Terms()

    ledger = FakeLedger()
    gateway = SimpleNamespace(ledger=ledger, routes=Routes({"m": MODEL}, {}, {}))
    call = make_call(gateway=gateway, key=key)
    with pytest.raises(ModelNotAllowed):
        await find_model(call, "m")
    ledger.allows = True
    assert await find_model(call, "m") is MODEL


async def test_a_model_that_went_during_the_wait_is_not_found() -> None:
    """The caller takes its routes from what it finds here, so both have to be of one reload."""
    key = Key("k", Account(1, "a", False, 5), KeyTerms(("other",)), Line("k"))
    nothing = SimpleNamespace(models={})
    gateway = SimpleNamespace(config=nothing, routes=Routes({"m": MODEL}, {}, {}))

    class FakeLedger:
        async def refresh(self) -> None:
            key.terms = KeyTerms()
            gateway.routes = Routes({}, {}, {})

    gateway.ledger = FakeLedger()
    with pytest.raises(UnknownModel):
        await find_model(make_call(gateway=gateway, key=key), "m")


async def test_a_budget_that_is_spent_while_a_body_comes_refuses_none_that_ends_after_midnight(
    tmp_path: Path,
) -> None:
    secret, body = ids.make_key(), json.dumps(say("demo/echo")).encode()

    def seed(books: SqliteBooks) -> None:
        books.keys.create(HOLDER, KeyTerms(), store("key", secret), own=Allowance(1, "day"))

    async with open_served(tmp_path, seed=seed) as served, connect(served.port) as call:
        headers = JSON_TYPE | {"Authorization": f"Bearer {secret}", "Expect": "100-continue"}
        await call.send(request("POST", CHAT, headers | {"Content-Length": str(len(body))}))
        await call.read_head()
        assert call.status == 100
        assert (await served.complete(secret)).status == 200
        assert (await served.complete(secret)).status == 402
        tomorrow = served.gateway.ledger.clock() + DAY_MS
        served.gateway.ledger.clock = lambda: tomorrow
        await call.send(body)
        assert (await call.read_all()).status == 200


# ---- keys ---------------------------------------------------------------------------------------

GOOD = json.dumps(say("plain/0")).encode()
JSON_TYPE = {"Content-Type": "application/json"}


async def test_expect_is_refused_before_the_body(stage: Stage) -> None:
    """A bad key or a body that is too large gets no 100 (RFC 9110, section 10.1.1)."""
    expect = JSON_TYPE | {"Expect": "100-continue", "Content-Length": "100"}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, expect | {"Authorization": "Bearer nobody"}))
        check_error(await call.read_all(), 401, "invalid_api_key")
    large = expect | {"Authorization": f"Bearer {stage.key}", "Content-Length": "99999999"}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, large))
        check_error(await call.read_all(), 413, "request_too_large")


async def test_a_balance_that_goes_while_the_body_comes_is_told_with_its_currency(
    stage: Stage, spare: Caller
) -> None:
    """The hold would refuse it, too, but without saying where to top up."""
    headers = JSON_TYPE | {"Authorization": f"Bearer {spare.key}", "Expect": "100-continue"}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, headers | {"Content-Length": str(len(GOOD))}))
        await call.read_head()
        with open_books(stage.gateway.database) as books:
            books.entries.post(spare.account, "correction", -100 * NANO, note="x")
        while (await stage.gateway.ask("GET", "/v1/key", key=spare.key)).json["balance_nano"]:
            pass
        await call.send(GOOD)
        told = check_error(await call.read_all(), 402, "insufficient_quota")
    assert told == f"The balance is 0.00 USD. {tell_next_step('top_up')}"


async def test_body_shorter_than_declared_is_not_forwarded(stage: Stage) -> None:
    """The caller closes its side early, so the body is incomplete (RFC 9112, section 8)."""
    headers = JSON_TYPE | {"Authorization": f"Bearer {stage.key}", "Content-Length": "5000"}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, headers, GOOD))
        call.half_close()
        await call.read_to_close()
    assert stage.alpha.connections == 0


UNKNOWN = "Incorrect API key provided. There is no such key here; it may be cut or revoked."


class FakeLedger:
    def __init__(self, ended: EndedKey | Exception | None) -> None:
        self.ended = ended
        self.lookups = 0

    async def read_ended_key(self, _: bytes) -> EndedKey | None:
        self.lookups += 1
        if isinstance(self.ended, Exception):
            raise self.ended
        return self.ended


async def explain(ledger: object, lookups: Bucket | None = None) -> str:
    lookups = lookups or Bucket(LOOKUPS_PER_MINUTE, time.monotonic())
    gateway = SimpleNamespace(ledger=ledger, ended_key_lookups=lookups)
    return (await explain_end(cast("Any", gateway), b"")).message


@each_row(
    ("ended", "told"),
    [
        (EndedKey(60_000, None), "was revoked on 1970-01-01 00:01 UTC."),
        (EndedKey(60_000, 1), "was revoked on 1970-01-01 00:01 UTC."),
        (EndedKey(None, 120_000), "expired on 1970-01-01 00:02 UTC."),
        (None, ""),
        (LedgerUnavailable(), ""),
    ],
)
async def test_a_key_s_end_is_told(ended: EndedKey | Exception | None, told: str) -> None:
    expected = f"Incorrect API key provided. This key {told}" if told else UNKNOWN
    assert (await explain(FakeLedger(ended))).startswith(expected)


async def test_many_made_up_keys_ask_the_ledger_seldom() -> None:
    ledger, lookups = FakeLedger(EndedKey(0, None)), Bucket(LOOKUPS_PER_MINUTE, time.monotonic())
    told = [await explain(ledger, lookups) for _ in range(3 * LOOKUPS_PER_MINUTE)]
    assert LOOKUPS_PER_MINUTE <= ledger.lookups < 2 * LOOKUPS_PER_MINUTE
    assert "revoked" in told[0]
    assert told[-1].startswith(UNKNOWN)


async def test_a_ledger_that_hangs_holds_up_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(FakeLedger):
        async def read_ended_key(self, _: bytes) -> EndedKey | None:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr(keys, "LOOKUP_SECONDS", 0)
    assert (await explain(Hanging(None))).startswith(UNKNOWN)
