"""Refusals and the providers' answers are counted for operators, without a word of what was said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from gateway.api.observations import find_code
from gateway.errors import BadRequest, name_model
from gateway.ledger.alert_records import RefusalView, UpstreamView
from gateway.ledger.opening import open_books
from tests.api.test_failed_routes import CAUSES, SAID, read_line
from tests.support.chat import say
from tests.support.config import UPSTREAM_NAME
from tests.support.replies import completion, error_reply, json_reply
from tests.support.rows import each_row
from tests.support.seed import Caller
from tests.support.stage import Stage
from tests.support.waiting import until

ALLOWED: Final = "plain/0"
CANARY: Final = "a prompt in the wrong field"
Body = Callable[[], Any]

REFUSED: Final[dict[str, tuple[str, Body, str, str, str]]] = {
    # the caller ("spare" is one of this case's own), the body, the code, the model in the table, the model in the log
    "no money": ("empty", lambda: say(ALLOWED), "insufficient_quota", "", ""),
    "suspended": ("suspended", lambda: say(ALLOWED), "account_suspended", "", ""),
    "not allowed": ("picky", lambda: say("plain/5"), "model_not_allowed", "plain/5", "plain/5"),
    "no such model": ("spare", lambda: say("no/such-model"), "model_not_found", "", "no/such-model"),
    "no model's name": ("spare", lambda: say(CANARY), "model_not_found", "", ""),
    "no JSON": ("spare", lambda: b"{", "invalid_request_error", "", ""),
    "a bad field": ("spare", lambda: say(ALLOWED, n=0), "integer_below_min_value", "", ""),
}  # fmt: skip


def read_refusals(stage: Stage, account: str | None) -> list[RefusalView]:
    with open_books(stage.books.path) as books:
        account_id = None if account is None else books.accounts.find_id(account)
        return [
            one for one in books.observations.read_refusals(account_id, 0) if one.account == account
        ]


def read_seen(stage: Stage, provider: str) -> UpstreamView | None:
    with open_books(stage.books.path) as books:
        found = [one for one in books.observations.read_upstream() if one.provider == provider]
    return found[0] if found else None


async def see(stage: Stage, provider: str, calls: int) -> UpstreamView:
    """Return what was seen of a provider once it has had so many calls."""

    def find() -> UpstreamView | None:
        seen = read_seen(stage, provider)
        return seen if seen is not None and seen.today.calls >= calls else None

    await until(lambda: find() is not None, "the count")
    seen = find()
    assert seen is not None
    return seen


@pytest.mark.parametrize("name", REFUSED)
async def test_a_refusal_is_counted_and_logged(stage: Stage, spare: Caller, name: str) -> None:
    account, make_body, code, model, logged_model = REFUSED[name]
    caller = spare if account == "spare" else stage.callers[account]
    account = caller.account
    before = sum(one.count for one in read_refusals(stage, account) if one.code == code)
    reply = await stage.chat(make_body(), key=caller.key)
    assert 400 <= reply.status < 500

    def find() -> list[RefusalView]:
        return [
            one for one in read_refusals(stage, account) if one.last_request_id == reply.request_id
        ]

    await until(lambda: bool(find()), "the count")
    (found,) = find()
    assert (found.code, found.model) == (code, model)
    assert found.count >= before + 1 or model
    line = await read_line(stage, reply.request_id)
    assert f" account={account} " in line
    assert f" code={code} " in line
    assert (f" model={logged_model} " in line) if logged_model else " model=" not in line
    assert CANARY not in line


@each_row("key", ["sk-ru-" + "x" * 32, "nonsense"])
async def test_an_unknown_key_is_nobody_s(stage: Stage, key: str) -> None:
    reply = await stage.chat(say(ALLOWED), key=key)

    def is_counted() -> bool:
        return reply.request_id in {one.last_request_id for one in read_refusals(stage, None)}

    await until(is_counted, "the count")
    assert {one.code for one in read_refusals(stage, None)} == {"invalid_api_key"}


async def test_what_was_admitted_is_not_refused(stage: Stage, spare: Caller) -> None:
    """It has a row of its own, and so it is no refusal: of a provider, or by it."""
    for status in (400, 500):
        model = stage.fresh("brisk")
        stage.alpha.play(error_reply(status))
        assert (await stage.chat(say(model), key=spare.key)).status == (
            status if status < 500 else 502
        )
        await see(stage, f"{model.replace('/', '-')}-alpha", 1)
    assert read_refusals(stage, spare.account) == []


@each_row("name", [name for name in CAUSES if name != "400"])
async def test_a_failure_is_counted_without_the_provider_s_words(stage: Stage, name: str) -> None:
    script, cause = CAUSES[name]
    model = stage.fresh("brisk")
    stage.alpha.play(script)
    reply = await stage.chat(say(model))
    seen = await see(stage, f"{model.replace('/', '-')}-alpha", 1)
    assert (seen.upstream_model, seen.today.failures) == (UPSTREAM_NAME, 1)
    failure = seen.failure
    assert failure is not None
    assert failure.request_id == reply.request_id
    assert failure.reason.startswith(cause)
    assert SAID not in failure.reason
    assert failure.url == f"{stage.running.places.urls['alpha']}/chat/completions"
    with open_books(stage.books.path) as books:
        assert books.calls.read_detail(reply.request_id).failures == (failure,)
    assert failure.status == (int(cause.split()[1]) if cause.startswith("status") else None)


async def test_what_the_operator_has_to_fix_is_said(stage: Stage) -> None:
    model = stage.fresh("brisk")
    stage.alpha.play(error_reply(401, f"Incorrect API key provided: {stage.secret}"))
    await stage.chat(say(model))
    seen = await see(stage, f"{model.replace('/', '-')}-alpha", 1)
    assert seen.failure is not None
    assert seen.failure.reason.endswith(": the provider refuses our key")


async def test_successes_and_rejections_are_calls_without_failure(stage: Stage) -> None:
    model = stage.fresh("brisk")
    for script in (json_reply(completion()), error_reply(400)):
        stage.alpha.play(script)
        await stage.chat(say(model))
    seen = await see(stage, f"{model.replace('/', '-')}-alpha", 2)
    assert (seen.today.calls, seen.today.failures, seen.failure) == (2, 0, None)


async def test_each_route_that_was_tried_is_counted(stage: Stage) -> None:
    model = stage.fresh("pair")
    stage.alpha.play(error_reply(500))
    stage.beta.play(json_reply(completion()))
    assert (await stage.chat(say(model))).status == 200
    failed = await see(stage, f"{model.replace('/', '-')}-alpha", 1)
    served = await see(stage, f"{model.replace('/', '-')}-beta", 1)
    assert (failed.today.failures, served.today.failures) == (1, 0)


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
