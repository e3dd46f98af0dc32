"""Counts for operators and the log line of each request, without a word of what was said."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, Literal, cast

import pytest

from gateway.api.state import Call, find_code
from gateway.errors import BadRequest, ErrorNames, name_model
from gateway.ledger.alert_records import RefusalView, UpstreamView
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.opening import open_books
from gateway.money import Tokens
from gateway.server.log import AccessLog, describe_call
from gateway.times import HOUR_MS
from gateway.usage import MissingUsages
from tests.api.test_faults import CAUSES, SAID, read_failed, read_line
from tests.support import records
from tests.support.chat import say
from tests.support.config import UPSTREAM_NAME
from tests.support.replies import completion, error_reply, http, json_reply
from tests.support.rows import each_row
from tests.support.seed import Caller
from tests.support.stage import Stage
from tests.support.upstream import Script
from tests.support.waiting import until

ALLOWED: Final = "plain/0"
CANARY: Final = "a prompt in the wrong field"
Body = Callable[[], Any]

REFUSED: Final[dict[str, tuple[str | None, Body, str, str, str]]] = {
    # the account ("spare" is of this case alone), the body, the code, the model in the table, and in the log
    "no money": ("empty", lambda: say(ALLOWED), "insufficient_quota", "", ""),
    "suspended": ("suspended", lambda: say(ALLOWED), "account_suspended", "", ""),
    "not allowed": ("picky", lambda: say("plain/5"), "model_not_allowed", "plain/5", "plain/5"),
    "no such model": ("rich", lambda: say("no/such-model"), "model_not_found", "", "no/such-model"),
    "no model's name": ("spare", lambda: say(CANARY), "model_not_found", "", ""),
    "no JSON": ("spare", lambda: b"{", "invalid_request_error", "", ""),
    "a bad field": ("spare", lambda: say(ALLOWED, n=0), "integer_below_min_value", "", ""),
    "an unknown key": (None, lambda: say(ALLOWED), "invalid_api_key", "", ""),
}  # fmt: skip


def read_refusals(stage: Stage, account: str | None) -> list[RefusalView]:
    with open_books(stage.books.path) as books:
        account_id = None if account is None else books.accounts.find_id(account)
        found = books.observations.read_refusals(account_id, 0)
        return [one for one in found if one.account == account]


async def see(stage: Stage, provider: str, calls: int) -> UpstreamView:
    """Return what was seen of a provider once it has had so many calls."""

    def find() -> UpstreamView | None:
        with open_books(stage.books.path) as books:
            for one in books.observations.read_upstream():
                if one.provider == provider and one.today.calls >= calls:
                    return one
        return None

    await until(lambda: find() is not None, "the count")
    seen = find()
    assert seen is not None
    return seen


def count_complete(stage: Stage, provider: str) -> int:
    """Return of how many replies the time was noted: of those that are complete."""
    with open_books(stage.books.path) as books:
        found = books.observations.read_latencies("route", 0, 10**6)
    counted = [one for one in found if one.name == (provider, UPSTREAM_NAME)]
    assert sum(one.firsts for one in counted) == sum(one.totals for one in counted)
    return sum(one.totals for one in counted)


async def test_refusals_are_counted_and_logged(stage: Stage, spare: Caller) -> None:
    """All are asked for before the first count is read, as counts are written now and then."""
    asked: list[tuple[str, str | None, str]] = []
    for name, (account, make_body, *_) in REFUSED.items():
        caller = spare if account == "spare" else stage.callers.get(account or "")
        key = "sk-ru-" + "x" * 32 if caller is None else caller.key
        reply = await stage.chat(make_body(), key=key)
        assert 400 <= reply.status < 500
        asked.append((name, None if caller is None else caller.account, reply.request_id))
    for name, account, request_id in asked:
        _, _, code, model, logged_model = REFUSED[name]

        def find(account: str | None = account, id_: str = request_id) -> list[RefusalView]:
            return [one for one in read_refusals(stage, account) if one.last_request_id == id_]

        await until(find, "the count")
        (found,) = find()
        assert (found.code, found.model, found.count >= 1) == (code, model, True)
        line = await read_line(stage, request_id)
        assert (f" account={account} " in line) == (account is not None)
        assert f" code={code} " in line
        assert (f" model={logged_model} " in line) if logged_model else " model=" not in line
        assert CANARY not in line


COUNTED: Final[list[tuple[str, list[Script], dict[str, tuple[int, int]]]]] = [
    ("brisk", [json_reply(completion()), error_reply(400)], {"alpha": (2, 0)}),
    ("pair", [error_reply(500)], {"alpha": (1, 1), "beta": (1, 0)}),
]
"""A kind of model, what its first provider says, and the calls and failures of each."""


async def test_what_providers_say_is_counted_and_logged_without_their_words(
    stage: Stage, spare: Caller
) -> None:
    """A rejection is no failure. What was admitted has a row of its own, so it is no refusal."""
    stage.beta.always(json_reply(completion()))
    counts: list[tuple[str, int, int]] = []
    asked: list[tuple[str, str, str]] = []
    for kind, scripts, seen_by in COUNTED:
        model = stage.fresh(kind)
        for script in scripts:
            stage.alpha.play(script)
            await stage.chat(say(model), key=spare.key)
        name = model.replace("/", "-")
        counts += [(f"{name}-{place}", *count) for place, count in seen_by.items()]
    for script, cause in (CAUSES[name] for name in CAUSES if name != "400"):
        model = stage.fresh("brisk")
        stage.alpha.play(script)
        reply = await stage.chat(say(model), key=spare.key)
        asked.append((f"{model.replace('/', '-')}-alpha", cause, reply.request_id))
    for provider, calls, failures in counts:
        seen = await see(stage, provider, calls)
        assert count_complete(stage, provider) == (1 if failures < calls else 0)
        assert (seen.today.calls, seen.today.failures) == (calls, failures)
        assert (seen.failure is None) == (failures == 0)
    for provider, cause, request_id in asked:
        check_failure(stage, await see(stage, provider, 1), cause, request_id)
        line = await read_line(stage, request_id)
        assert read_failed(line).startswith(f"{provider}/{UPSTREAM_NAME}: {cause}")
        assert SAID not in line
    assert read_refusals(stage, spare.account) == []


ERRORS: Final[dict[str, tuple[int, dict[str, object], ErrorNames, bool]]] = {
    # the status, fields of the provider's error, what is kept of them, and whether it rejects the request
    "names": (
        400,
        {"type": "bad", "code": "unknown", "param": "stop[0]"},
        ErrorNames("bad", "unknown", "stop[0]"),
        True,
    ),
    "other names": (500, {"type": "overloaded_error", "param": None}, ErrorNames("overloaded_error"), False),
    "texts": (422, {"type": CANARY, "code": "x" * 65, "param": "naïve"}, ErrorNames(), True),
    "our key": (401, {"code": "key:SECRET"}, ErrorNames(code="key:[redacted]"), False),
    "within a 200": (200, {"type": "bad", "code": 7, "param": ["p"]}, ErrorNames("bad"), False),
}  # fmt: skip


async def test_the_names_of_a_providers_error_are_kept_and_never_its_text(
    stage: Stage, spare: Caller
) -> None:
    """All are asked for before the first count is read, as counts are written now and then."""
    asked: list[tuple[str, str, str]] = []
    for name, (status, fields, _, _) in ERRORS.items():
        body = json.dumps({"error": {"message": SAID, **fields}}).replace("SECRET", stage.secret)
        stage.alpha.play([http(body.encode(), status)])
        model = stage.fresh("brisk")
        reply = await stage.chat(say(model), key=spare.key)
        asked.append((name, f"{model.replace('/', '-')}-alpha", reply.request_id))
    for name, provider, request_id in asked:
        status, _, names, rejected = ERRORS[name]
        seen = await see(stage, provider, 1)
        assert seen.today.failures == (not rejected), name
        with open_books(stage.books.path) as books:
            (failure,) = books.calls.read_detail(request_id).failures
        assert ErrorNames(failure.type, failure.code, failure.param) == names
        assert (failure.rejected, failure.status) == (rejected, None if status == 200 else status)
        assert SAID not in failure.reason


def check_failure(stage: Stage, seen: UpstreamView, cause: str, request_id: str) -> None:
    assert (seen.upstream_model, seen.today.failures) == (UPSTREAM_NAME, 1), cause
    failure = seen.failure
    assert failure is not None, cause
    assert failure.request_id == request_id
    assert failure.reason.startswith(cause)
    assert SAID not in failure.reason
    assert (": the provider refuses our key" in failure.reason) == ("401" in cause)
    assert failure.url == f"{stage.running.places.urls['alpha']}/chat/completions"
    with open_books(stage.books.path) as books:
        (attempt,) = books.calls.read_detail(request_id).failures
    assert attempt == failure
    assert failure.status == (int(cause.split()[1]) if cause.startswith("status") else None)


@each_row(
    ("code", "found"),
    [
        ("context_length_exceeded", "context_length_exceeded"),
        (None, "invalid_request_error"),
        ("Tell me a secret", "invalid_request_error"),
        ("x" * 41, "invalid_request_error"),
    ],
)
def test_a_code_that_is_any_text_is_not_kept(code: str | None, found: str) -> None:
    assert find_code(BadRequest("M", code=code)) == found


@each_row(
    ("text", "is_named"),
    [
        ("gpt-5.5", True),
        ("qwen/qwen3-235b-a22b:free", True),
        ("models/gemini-2.5-pro@latest", True),
        ("x" * 23, True),
        ("", False),
        ("what is the answer", False),
        ("a\nb", False),
        ("sk-ru-abc", False),
        ("gsk_" + "aB3" * 17, False),
        ("a-" * 51, False),
    ],
)
def test_only_what_can_be_a_model_is_named(text: str, is_named: bool) -> None:
    """Anything else may be a prompt, or a key in the wrong field."""
    assert name_model(text) == (text if is_named else "")


def make_call(**facts: Any) -> Call:
    return records.make_call(started_ms=1_700_000_000_042, **facts)


KEY = Key("key_1", Account(1, "alice smith", False, 10**9), KeyTerms(), Line("key_1"))


def collect(shape: Literal["human", "json"]) -> tuple[AccessLog, list[str]]:
    """Make a log, and the list that its lines come to: one text for each batch."""
    written: list[str] = []

    def take(make: Callable[[], str], count: int) -> None:
        text = make()
        assert text.count("\n") == count
        written.append(text)

    return AccessLog(shape, take), written


def test_a_request_that_was_not_admitted_has_no_facts_of_a_model() -> None:
    assert describe_call(make_call(), 401, "", 0.75) == {
        "time": "2023-11-14T22:13:20.042Z",
        "request": "req_1",
        "status": 401,
        "outcome": "refused",
        "total_ms": 750,
    }
    assert describe_call(make_call(), 200, "", 0.0)["outcome"] == "served"


def test_a_completion_has_its_key_tokens_and_cost() -> None:
    call = make_call(
        key=KEY, model="m", attempts=2, outcome="caller_left", cost_nano=5, first_byte_ms=0
    )
    call.tokens = Tokens(input=1, cached_input=2, cache_write=3, output=4)
    facts = describe_call(call, 499, "alice smith", 0.0)
    assert list(facts) == [
        "time", "request", "status", "outcome", "account", "key", "model", "provider", "attempts",
        "input", "cached", "written", "output", "cost", "first_byte_ms", "total_ms",
    ]  # fmt: skip
    assert (facts["account"], facts["key"], facts["outcome"]) == (
        "alice smith", "key_1", "caller_left",
    )  # fmt: skip
    assert (facts["provider"], facts["cost"], facts["first_byte_ms"]) == ("-", "0.000000005", 0)
    assert [facts[name] for name in ("input", "cached", "written", "output")] == [1, 2, 3, 4]


async def test_lines_are_for_people_or_for_tools() -> None:
    lines = []
    shapes: tuple[Literal["human", "json"], ...] = ("human", "json")
    for shape in shapes:
        log, written = collect(shape)
        log.write(make_call(key=KEY), 200)
        log.flush()
        lines += written
    assert lines[0].startswith(
        '2023-11-14T22:13:20.042Z req_1 status=200 outcome=served account="alice smith" key=key_1 '
    )
    assert json.loads(lines[1])["account"] == "alice smith"


async def test_lines_are_collected_and_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.log.LINES_SECONDS", 0)
    log, written = collect("json")
    log.write(make_call(), 200)
    log.write(make_call(), 200)
    assert written == [], "a write a request would cost more than the rest of its line"
    while not written:  # noqa: ASYNC110 - a timer of the loop
        await asyncio.sleep(0)
    assert [text.count("\n") for text in written] == [2]


async def test_many_lines_come_in_batches_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that makes them lets the event loop run between two batches."""
    monkeypatch.setattr("gateway.server.log.BATCH_LINES", 3)
    log, written = collect("json")
    for status in range(200, 208):
        log.write(make_call(), status)
    log.flush()
    assert [text.count("\n") for text in written] == [3, 3, 2]
    lines = "".join(written).splitlines()
    assert [json.loads(line)["status"] for line in lines] == list(range(200, 208))


async def test_a_line_tells_how_things_were_at_the_request_s_end() -> None:
    """It is made later, when its account may have another name."""
    account = Account(1, "before", False, 10**9)
    made: list[Callable[[], str]] = []
    log = AccessLog("json", lambda make, _: made.append(make))
    call = make_call(key=Key("key_1", account, KeyTerms(), Line("key_1")))
    log.write(call, 200)
    ended = time.monotonic()
    account.name = "after"
    await asyncio.sleep(0.002)
    log.flush()
    facts = json.loads(made[0]())
    assert facts["account"] == "before"
    assert facts["total_ms"] <= ended * 1000


async def test_the_shape_can_change_between_two_batches() -> None:
    log, written = collect("human")
    log.write(make_call(), 200)
    log.flush()
    log.reconfigure(cast("Any", SimpleNamespace(server=SimpleNamespace(log="json"))))
    log.write(make_call(), 200)
    log.flush()
    assert not written[0].startswith("{")
    assert json.loads(written[1])["status"] == 200


def test_each_provider_and_model_is_logged_once_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    found = MissingUsages()
    with caplog.at_level(logging.WARNING):
        for now_ms in (0, 1, HOUR_MS - 1, HOUR_MS, HOUR_MS + 1):
            found.note("alpha", "m", now_ms)
        found.note("beta", "m", 1)
        found.note("alpha", "other", 1)
    said = [record.getMessage() for record in caplog.records]
    assert [one.split(" ")[1] for one in said] == ["alpha", "alpha", "beta", "alpha"]
    assert "for model m: 4 replies are charged by an estimate" in said[1]
    latest = [(one.provider, one.model, one.count, one.last_ms) for one in found.list_latest()]
    assert latest[0] == ("alpha", "m", 5, HOUR_MS + 1)
