"""Holds that are not confirmed, the ledger's and the gateway's own faults."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.api.admission import Completion
from gateway.api.completions import Relay
from gateway.base.errors import STOPPED, InternalError, LedgerUnavailable, NoFunds, Overloaded
from gateway.ledger.key_records import refuse_concurrency, refuse_requests, refuse_tokens
from gateway.upstream.forwarder import HttpForwarder
from tests.api.scene import ASKS, PATHS
from tests.api.shared_ledger import RATE, Refuse, Shared, SharedLedger, open_shared
from tests.support.client import Reply
from tests.support.config import Places
from tests.support.embeddings import EMBEDDINGS, embed
from tests.support.formats import CALLERS, SERVICES
from tests.support.replies import completion, json_reply, sse_reply, stream_chunks
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import until

REFUSALS: Final[dict[str, tuple[Refuse, int, str]]] = {
    # the refusal, its status, its code in the counts
    "no money": (lambda _: NoFunds("balance"), 402, "insufficient_quota"),
    "no budget": (lambda _: NoFunds("budget"), 402, "insufficient_quota"),
    "held": (lambda _: NoFunds("budget held"), 429, "rate_limit_exceeded"),
    "requests": (lambda _: refuse_requests("key", 5, 7.5), 429, "rate_limit_exceeded"),
    "tokens": (lambda _: refuse_tokens("account", 9, 12, 30), 429, "rate_limit_exceeded"),
    "concurrency": (lambda _: refuse_concurrency("key", 3), 429, "rate_limit_exceeded"),
    "no ledger": (lambda _: LedgerUnavailable(), 503, "server_is_overloaded"),
    "a fault": (lambda _: InternalError(), 500, "internal_error"),
}
CHANGING: Final = ("date", "request-id", "-reset", "-requests")
"""Parts of the names of headers that differ from reply to reply."""


@pytest.fixture
async def shared(tmp_path: Path, places: Places, alpha: ScriptedUpstream) -> AsyncIterator[Shared]:
    async with open_shared(tmp_path, places, alpha) as shared:
        yield shared


FORMS: Final = [
    *((PATHS[caller], ASKS[caller]("plain/0", stream=stream))
      for caller in PATHS if caller in CALLERS for stream in (False, True)),
    *((path, asked) for path, asked in [(EMBEDDINGS, embed("embed/0"))] if "embeddings" in SERVICES),
]  # fmt: skip


def tell(reply: Reply) -> tuple[int, object, dict[str, str]]:
    """Return what is the same for two equal refusals."""
    kept = {
        name: value
        for name, value in reply.headers.items()
        if not any(part in name for part in CHANGING)
    }
    kept["headers"] = " ".join(sorted(reply.headers))
    body = json.loads(reply.body)
    body.pop("request_id", None)
    return reply.status, body, kept


@pytest.mark.parametrize("name", REFUSALS)
async def test_what_is_not_confirmed_is_refused_as_a_hold_is(shared: Shared, name: str) -> None:
    """Status, code, words and headers; nothing is left of it, and no provider hears of it."""
    refuse, status, code = REFUSALS[name]
    ledger = shared.ledger
    for path, body in FORMS:
        ledger.refuse_hold, ledger.refuse_confirm = refuse, None
        expected = await shared.ask(path, body)
        ledger.refuse_hold, ledger.refuse_confirm = None, refuse
        reply = await shared.ask(path, body)
        assert reply.status == status
        assert tell(reply) == tell(expected)
        assert "x-gateway-balance" not in reply.headers
        assert (b"USD" in reply.body) == (name in {"no money", "no budget"}), (
            "the ledger knows no currency"
        )
        shared.check_nothing_left()
        one, other = ledger.refused[-2:]
        assert one == other == (code, body["model"])
    assert len(ledger.confirming) == len(FORMS)
    assert len(ledger.refused) == 2 * len(FORMS)
    assert ledger.settled == []
    assert shared.scene.alpha.exchanges == []
    assert {(call.settlement, logged) for call, logged in shared.calls} == {(None, status)}
    assert shared.scene.count_pending() == 0


async def test_no_provider_is_asked_before_the_hold_is_in_force(shared: Shared) -> None:
    """Once for each request, with the limits and the tokens that are expected."""
    ledger, alpha = shared.ledger, shared.scene.alpha
    alpha.play(json_reply(completion()))
    async with shared.ask_slowly(*FORMS[0]) as call:
        assert (alpha.exchanges, shared.scene.count_pending()) == ([], 0)
        ledger.go_on.set()
        assert (await call.read_all()).status == 200
    (hold,) = ledger.confirming
    admission = hold.admission
    assert (admission.key_rate, admission.account_rate) == (RATE, None)
    assert admission.expected_tokens > 0
    (end,) = ledger.settled
    assert (end.outcome, end.is_posted) == ("complete", True)
    assert len(alpha.exchanges) == 1


@pytest.mark.parametrize("declined", [False, True])
async def test_a_stream_whose_caller_leaves_meanwhile_is_void_if_it_is_admitted(
    shared: Shared, *, declined: bool
) -> None:
    ledger = shared.ledger
    async with shared.ask_slowly(*FORMS[1]) as call:
        (relay,) = shared.gateway.ticker._timed
        call.reset()
    life: Any = getattr(relay, "life")  # noqa: B009 - it is of the driver, not of its protocol
    await until(lambda: life.caller_gone, "the gateway to notice")
    ledger.refuse_confirm = REFUSALS["held"][0] if declined else None
    ledger.go_on.set()
    await until(lambda: shared.calls, "the end")
    ((served, _),) = shared.calls
    if declined:
        assert (ledger.settled, len(ledger.refused)) == ([], 1)
        assert (served.settlement, shared.scene.books.request(served.request_id)) == (None, None)
    else:
        (end,) = ledger.settled
        assert (end.outcome, end.status, end.cost_nano) == ("caller_left", 499, 0)
        row = await shared.scene.books.settled(served.request_id)
        assert (row.state, row.outcome) == ("voided", "caller_left")
    await until(lambda: shared.key.held_nano == 0, "the void")
    shared.check_nothing_left()
    assert shared.scene.alpha.exchanges == []


@pytest.mark.parametrize("declined", [False, True])
@pytest.mark.parametrize("form", FORMS[:2])
async def test_a_stop_meanwhile_lets_no_attempt_begin(
    shared: Shared, form: tuple[str, object], *, declined: bool
) -> None:
    ledger, gateway = shared.ledger, shared.gateway
    async with shared.ask_slowly(*form) as call:
        gateway.ticker.stop_all(Overloaded(STOPPED))
        ledger.refuse_confirm = REFUSALS["held"][0] if declined else None
        ledger.go_on.set()
        assert (await call.read_all()).status == (429 if declined else 503)
    ends = [(end.outcome, end.status, end.cost_nano) for end in ledger.settled]
    assert ends == ([] if declined else [("shutdown", 503, 0)])
    await until(lambda: shared.key.held_nano == 0, "the void")
    shared.check_nothing_left()
    assert shared.scene.alpha.exchanges == []


async def fail(*_: object) -> None:
    raise KeyError("a bug")


FAULTS: Final[list[tuple[type, str, str]]] = [
    # the function that fails, and what the log has of it
    (SharedLedger, "confirm", ""),
    (HttpForwarder, "send", "the relay failed"),
    (Relay, "conclude", "the stream could not be ended"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_of_the_gateway_is_free_and_does_not_tell_of_itself(
    shared: Shared,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: tuple[type, str, str],
    *,
    stream: bool,
) -> None:
    """Before the head it is a status; a stream that has begun is cut, which is never a clean end."""
    owner, name, logged = fault
    at_the_end = owner is Relay
    script = sse_reply(stream_chunks(["Hallo"])) if stream else json_reply(completion())
    shared.scene.alpha.play(script)
    monkeypatch.setattr(owner, name, fail)
    reply = await shared.ask(*FORMS[stream])
    assert (reply.status, reply.complete) == (
        (200, False) if stream and at_the_end else (500, True)
    )
    assert b"a bug" not in reply.body
    (end,) = shared.ledger.settled
    assert (end.outcome, end.status, end.cost_nano) == ("internal_error", 500, 0)
    await until(lambda: shared.key.held_nano == 0, "the void")
    shared.check_nothing_left()
    assert len(shared.scene.alpha.exchanges) == at_the_end
    assert (logged in caplog.text) is (stream or not at_the_end)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_fault_in_keeping_a_reply_costs_none_of_its_bytes(
    shared: Shared,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    stream: bool,
) -> None:
    script = sse_reply(stream_chunks(["Hallo"])) if stream else json_reply(completion())
    shared.scene.alpha.play(script)
    monkeypatch.setattr(Completion, "keep", property(lambda _: fail, lambda *_: None))
    reply = await shared.ask(*FORMS[stream])
    assert (reply.status, reply.complete) == (200, True)
    assert len(shared.ledger.settled) == 1
    assert "a reply could not be kept" in caplog.text
