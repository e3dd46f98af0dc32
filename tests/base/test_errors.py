"""Every error as each dialect tells it: status, type, code and headers, written out in one table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any, cast

import anthropic
import httpx2
import openai
import pytest
from openai.types.responses import ResponseFailedEvent

from gateway.base import errors as e
from gateway.dialects.wire.base import Caller
from tests.support.formats import CALLERS
from tests.support.rows import each_row

REQUEST_ID = "req-1"
CHAT, MESSAGES = CALLERS["chat"], CALLERS["messages"]

M = "A plain text."
ROWS = [
    re.split("  +", line)
    for line in Path(__file__).with_name("errors.txt").read_text(encoding="utf-8").splitlines()
]
"""The columns are named in the first one; a hyphen is for none."""


def make_error(told: str) -> e.GatewayError:
    """Make an error from the name of its class and its keyword parameters, as JSON."""
    name, _, settings = told.partition(" ")
    cls = getattr(e, name)
    positional = [one for one in signature(cls).parameters.values() if one.kind < one.KEYWORD_ONLY]
    needed = ["m" for one in positional if one.default is one.empty]
    return cast("e.GatewayError", cls(*needed, **json.loads(settings or "{}")))


FAMILIES = {e.CallerError, e.AccountError, e.GatewayFault}
"""Base classes that say who is to blame and are never raised."""


def subclasses_of(cls: type[e.GatewayError]) -> set[type[e.GatewayError]]:
    below = {sub for sub in cls.__subclasses__() if sub.__module__.startswith("gateway.")}
    return below.union(*(subclasses_of(sub) for sub in below))


def test_the_table_has_every_error() -> None:
    assert {type(make_error(row[0])) for row in ROWS[1:]} | FAMILIES == subclasses_of(
        e.GatewayError
    )


@each_row("row", ROWS[1:])
def test_each_error_is_told_in_each_dialect_as_the_sdks_read_it(row: list[str]) -> None:
    """All keys are in the body and in the event; the message has nothing private."""
    error, status = make_error(row[0]), int(row[1])
    kind, code, messages_type, failed, param, wait = (
        None if one == "-" else one for one in row[2:8]
    )
    hints = (error.status, error.retry_after_seconds, error.should_retry)
    assert hints == (status, None if wait is None else float(wait), row[8] == "yes")
    assert (status in {429, 503}) == (wait is not None)
    assert error.message

    said = {"message": error.message, "type": kind, "param": param, "code": code}
    for caller in (CALLERS[name] for name in CALLERS.keys() & {"chat", "responses"}):
        body = caller.render_error(error, REQUEST_ID)
        assert json.loads(body) == {"error": said}
        with pytest.raises(openai.APIStatusError) as refused:
            openai.OpenAI(**answering(status, body)).models.list()
        told = refused.value
        assert (told.status_code, told.type, told.code) == (status, kind, code)
        assert (told.param, error.message in told.message) == (param, True)
    broken = break_chat(error)
    assert (broken.body, broken.message) == (said, error.message)
    if "responses" in CALLERS:
        assert fail_response(error) == (failed, error.message)

    whole = {
        "type": "error",
        "error": {"type": messages_type, "message": error.message},
        "request_id": REQUEST_ID,
    }
    body = MESSAGES.render_error(error, REQUEST_ID)
    assert json.loads(body) == whole
    with pytest.raises(anthropic.APIStatusError) as denied:
        anthropic.Anthropic(**answering(status, body)).models.list()
    assert (denied.value.status_code, denied.value.body) == (status, whole)
    for one in (denied.value, break_message(error)):
        assert (one.type, one.body) == (messages_type, whole)


def answering(status: int, body: bytes) -> dict[str, Any]:
    """Make the parameters of an SDK's client that gets this reply, without a network."""
    reply = httpx2.Response(status, content=body, headers={"content-type": "application/json"})
    return {
        "api_key": "unused",
        "base_url": "http://gateway.test",
        "max_retries": 0,
        "http_client": httpx2.Client(transport=httpx2.MockTransport(lambda _: reply)),
    }


def end_stream(caller: Caller, error: e.GatewayError) -> dict[str, Any]:
    """Make the parameters of a client whose stream is nothing but the event of an error."""
    return answering(200, caller.render_error_event(error, REQUEST_ID, None, {}))


def break_chat(error: e.GatewayError) -> openai.APIError:
    client = openai.OpenAI(**end_stream(CHAT, error))
    with pytest.raises(openai.APIError) as raised:
        next(client.chat.completions.create(model="m", messages=[], stream=True))
    return raised.value


def break_message(error: e.GatewayError) -> anthropic.APIStatusError:
    client = anthropic.Anthropic(**end_stream(MESSAGES, error))
    with pytest.raises(anthropic.APIStatusError) as raised:
        next(client.messages.create(model="m", max_tokens=1, messages=[], stream=True))
    return raised.value


def fail_response(error: e.GatewayError) -> tuple[str, str]:
    """Return the code and the message of a response that failed at its beginning."""
    client = openai.OpenAI(**end_stream(CALLERS["responses"], error))
    _, failed = client.responses.create(model="m", input="m", stream=True)
    assert isinstance(failed, ResponseFailedEvent)
    assert failed.response.error is not None
    return failed.response.error.code, failed.response.error.message


def test_request_ids_go_out_under_the_names_the_sdks_read() -> None:
    assert CHAT.reply_headers("r") == {"x-request-id": "r"}
    assert MESSAGES.reply_headers("r") == {"x-request-id": "r", "request-id": "r"}


@each_row(("asked", "told"), [(-3, 0), (0, 0), (59.5, 59.5), (60, 60), (1e9, 60)])
def test_waits_are_between_zero_and_a_minute(asked: float, told: float) -> None:
    """SDKs obey longer waits, or give up."""
    assert e.UpstreamUnavailable(M, retry_after_seconds=asked).retry_after_seconds == told


def test_all_bad_keys_get_one_text() -> None:
    """It begins with OpenAI's words, by which LiteLLM tells a wrong key from a bad request."""
    assert e.InvalidKey().message.startswith("Incorrect API key provided.")
    assert "sk-ru-..." in e.InvalidKey().message


@each_row("make", [e.UnknownModel, e.ModelNotFound])
def test_a_long_model_name_is_not_echoed_whole(make: Callable[[str], e.GatewayError]) -> None:
    assert len(make("m" * 10_000).message) < 300


def test_a_text_with_quotes_and_newlines_stays_one_event() -> None:
    error = e.BadRequest('a "quoted"\n\ndata: [DONE]\r\n\r\ntext')
    assert break_chat(error).message == error.message
    assert break_message(error).body == json.loads(MESSAGES.render_error(error, REQUEST_ID))
    if "responses" in CALLERS:
        assert fail_response(error)[1] == error.message


@each_row("next_route", [False, True])
def test_an_upstream_error_says_whether_another_route_may_be_tried(*, next_route: bool) -> None:
    error = e.UpstreamError(M, next_route=next_route, alarm="mend it")
    assert (error.next_route, error.alarm) == (next_route, "mend it")
    assert "mend it" not in CHAT.render_error(error, REQUEST_ID).decode()
