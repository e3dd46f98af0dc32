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
from gateway.ledger.alert_records import UpstreamFailure, UpstreamView
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.opening import open_books
from gateway.money import Tokens
from gateway.server.log import AccessLog, describe_call
from gateway.times import HOUR_MS
from gateway.usage import MissingUsages
from tests.support import records
from tests.support.chat import say
from tests.support.config import UPSTREAM_NAME
from tests.support.replies import completion, error_reply, http, json_reply
from tests.support.rows import each_row
from tests.support.seed import Caller
from tests.support.stage import Stage
from tests.support.upstream import End, Script
from tests.support.waiting import until

SAID: Final = "the provider's words, perhaps with a prompt"
REFUSED: Final = [
    # the account, the body, the code, and the model that is counted
    ("empty", say("plain/0"), "insufficient_quota", ""),
    ("suspended", say("plain/0"), "account_suspended", ""),
    ("picky", say("plain/5"), "model_not_allowed", "plain/5"),
    ("rich", say("no/such-model"), "model_not_found", ""),
    ("rich", b"{", "invalid_request_error", ""),
    ("rich", say("plain/0", n=0), "integer_below_min_value", ""),
    (None, say("plain/0"), "invalid_api_key", ""),
]
REJECTIONS: Final = {400, 422}
"""The caller's fault, and no failure of the provider."""


def list_failed(secret: str) -> list[tuple[Script, str, ErrorNames, int | None]]:
    """List what a provider says, how the reason begins, the names that are kept, and the status."""
    return [
        (error_reply(500, SAID), "status 500", ErrorNames("invalid_request_error"), 500),
        (error_reply(401, code=f"key:{secret}"),
         "status 401: the provider refuses our key",
         ErrorNames("invalid_request_error", "key:[redacted]"), 401),
        (json_reply({"error": {"message": SAID, "code": SAID}}, 429), "status 429", ErrorNames(), 429),
        (json_reply({"error": {"type": "overloaded_error", "param": None}}, 529), "status 529",
         ErrorNames("overloaded_error"), 529),
        (json_reply({"error": {"message": SAID, "type": SAID, "code": "x" * 65, "param": "naïve"}}, 422),
         "status 422", ErrorNames(), 422),
        (json_reply({"error": {"type": "bad", "code": "unknown", "param": "stop[0]"}}, 400), "status 400",
         ErrorNames("bad", "unknown", "stop[0]"), 400),
        (json_reply({"error": {"message": SAID, "type": "bad", "code": 7, "param": ["p"]}}), "200",
         ErrorNames("bad"), None),
        ([End.HANG], "timeout: first_byte_timeout", ErrorNames(), None),
        ([b"SSH-2.0-x\r\n\r\n"], "broke off: its status line is malformed", ErrorNames(), None),
        ([http(SAID.encode())], "200, but an unusable reply", ErrorNames(), None),
    ]  # fmt: skip


async def test_refusals_are_counted(stage: Stage) -> None:
    """All are asked for before the first count is read, as counts are written now and then."""
    expected = {}
    for account, body, code, model in REFUSED:
        key = "sk-ru-" + "x" * 32 if account is None else stage.callers[account].key
        reply = await stage.chat(body, key=key)
        expected[reply.request_id] = (account, code, model)

    def find() -> dict[str, tuple[str | None, str, str]]:
        with open_books(stage.books.path) as books:
            kept = books.observations.read_refusals(None, 0)
        told = {one.last_request_id: (one.account, one.code, one.model) for one in kept}
        return {id_: told[id_] for id_ in expected if id_ in told}

    await until(lambda: len(find()) == len(expected), "the counts")
    assert find() == expected


async def test_what_providers_say_is_counted_without_their_words(
    stage: Stage, spare: Caller
) -> None:
    """Replies have a time; rejections are calls, but no failures; what was admitted is no refusal."""
    asked, pair, whole = [], stage.fresh("pair"), stage.fresh("brisk")
    stage.beta.always(json_reply(completion()))
    stage.alpha.play(json_reply(completion()), error_reply(400), error_reply(500))
    for model in (whole, whole, pair):
        await stage.chat(say(model), key=spare.key)
    failed = list_failed(stage.secret)
    for script, *_ in failed:
        stage.alpha.play(script)
        model = stage.fresh("brisk")
        reply = await stage.chat(say(model), key=spare.key)
        asked.append((f"{model.replace('/', '-')}-alpha", reply.request_id))
    whole, pair = (one.replace("/", "-") for one in (whole, pair))
    with open_books(stage.books.path) as books:

        def find() -> dict[str, UpstreamView]:
            return {one.provider: one for one in books.observations.read_upstream()}

        await until(lambda: asked[-1][0] in find(), "the counts")
        seen = find()
        for name, calls, failures in (
            (f"{whole}-alpha", 2, 0), (f"{pair}-alpha", 1, 1), (f"{pair}-beta", 1, 0)
        ):  # fmt: skip
            assert (seen[name].today.calls, seen[name].today.failures) == (calls, failures)
            times = [
                (one.firsts, one.totals)
                for one in books.observations.read_latencies("route", 0, 10**6)
                if one.name == (name, UPSTREAM_NAME)
            ]
            assert sum(totals for _, totals in times) == calls - (name != f"{pair}-beta")
            assert sum(firsts for firsts, _ in times) == sum(totals for _, totals in times)
        for (provider, request_id), (_, reason, names, status) in zip(asked, failed, strict=True):
            (failure,) = books.calls.read_detail(request_id).failures
            check_failure(stage, seen[provider], failure, status in REJECTIONS)
            assert failure.reason.startswith(reason)
            assert SAID not in failure.reason
            assert ErrorNames(failure.type, failure.code, failure.param) == names
            assert (failure.request_id, failure.status) == (request_id, status)
        kept = books.observations.read_refusals(books.accounts.find_id(spare.account), 0)
    assert kept == []


def check_failure(
    stage: Stage, seen: UpstreamView, failure: UpstreamFailure, is_rejected: bool
) -> None:
    assert (seen.upstream_model, seen.today.failures) == (UPSTREAM_NAME, not is_rejected)
    assert failure.rejected is is_rejected
    assert failure.url == f"{stage.running.places.urls['alpha']}/chat/completions"
    assert seen.failure == (None if is_rejected else failure)


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
