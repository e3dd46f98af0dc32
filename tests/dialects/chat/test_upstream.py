"""JSON replies of chat upstreams: conforming bytes pass, others are repaired."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.chat.stream import ChatStream
from gateway.dialects.exchanges import EXCHANGES
from gateway.errors import UndeliverableReply, UpstreamError
from gateway.money import Tokens
from tests.dialects.chat.kit import (
    DONE,
    INPUT_ESTIMATE,
    MODEL,
    dump,
    make_context,
    play,
    read_chunks,
)
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

EXCHANGE = EXCHANGES["chat"]["chat"]
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}


def answer(said: Any = "Hi", index: int = 0, **fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": said, **fields}
    return {"index": index, "message": message, "logprobs": None, "finish_reason": "stop"}


def completion(**fields: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-9",
        "object": "chat.completion",
        "created": 1,
        "model": "theirs",
        "choices": [answer()],
        "usage": USAGE,
        "system_fingerprint": "fp",
        **fields,
    }


def read(value: dict[str, Any] | bytes) -> dict[str, Any]:
    body = value if isinstance(value, bytes) else dump(value)
    result: dict[str, Any] = json.loads(EXCHANGE.read_reply(body, make_context()).body)
    return result


def test_a_conforming_reply_passes_byte_for_byte_but_for_the_model() -> None:
    """Spacing, key order, vendor fields and a "model" further in stay as they came."""
    body = (
        b'{"id": "chatcmpl-9","object":"chat.completion","x":{"model":"theirs"},"created":1,\n'
        b' "model":"theirs","choices":[{"index":0,"message":{"role":"assistant","content":'
        b'"a \\"model\\":\\"theirs\\" \\u00fc"},"finish_reason":"stop"}],"usage":'
        b'{"total_tokens":12,"prompt_tokens":9,"completion_tokens":3},"vendor":[1.50]}'
    )
    reply = EXCHANGE.read_reply(b"\n\n" + body + b"\r\n", make_context())
    assert reply.body == body.replace(b' "model":"theirs"', b' "model":"%s"' % MODEL.encode())
    assert (reply.metered.tokens, reply.metered.estimated) == (Tokens(9, output=3), False)


def test_an_id_without_the_shape_gets_it() -> None:
    assert read(completion(id="5319bd"))["id"] == "chatcmpl-5319bd"
    assert read(completion(id="chatcmpl-9"))["id"] == "chatcmpl-9"


def test_a_reply_that_cannot_be_edited_in_place_is_written_anew() -> None:
    body = dump(completion(id="5319bd")).replace(b'"model":', b'"model" :')
    assert read(body) == completion(id="chatcmpl-5319bd", model=MODEL)


@each_row("missing", [None, "", 7])
def test_an_id_that_is_missing_is_the_request_id(missing: object) -> None:
    assert read(completion(id=missing))["id"] == "chatcmpl-request-1"


@each_row(
    ("broken", "mended"),
    [
        (completion(object="text_completion"), completion()),
        (completion(object=None), completion()),
        (
            completion(usage={**USAGE, "total_tokens": 99}),
            completion(usage={"prompt_tokens": 9, "completion_tokens": 90, "total_tokens": 99}),
        ),
        (
            completion(choices=[{"message": answer()["message"], "finish_reason": "stop"}]),
            completion(
                choices=[{"message": answer()["message"], "finish_reason": "stop", "index": 0}]
            ),
        ),
        (completion(choices=[{**answer(), "index": "0"}]), completion()),
        (completion(choices=[{**answer(), "index": False}]), completion()),
        (completion(choices=[answer(role="model")]), completion()),
    ],
)
def test_what_deviates_from_the_schema_is_repaired(
    broken: dict[str, Any], mended: dict[str, Any]
) -> None:
    assert read(broken) == {**mended, "model": MODEL}


def test_a_reply_without_usage_gets_the_estimate() -> None:
    reply = EXCHANGE.read_reply(
        dump(completion(usage=None, choices=[answer("12345")])), make_context()
    )
    assert (reply.metered.tokens, reply.metered.estimated) == (
        Tokens(INPUT_ESTIMATE, output=2),
        True,
    )
    assert json.loads(reply.body)["usage"] == {
        "prompt_tokens": INPUT_ESTIMATE,
        "completion_tokens": 2,
        "total_tokens": INPUT_ESTIMATE + 2,
    }


CALL = {"function": {"name": "f", "arguments": ""}}


@each_row(("said", "output"), [(answer("12345"), 2), (answer(None, tool_calls=[CALL]), 0)])
def test_a_usage_without_output_is_no_count_beside_a_reply(
    said: dict[str, Any], output: int
) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 9}
    metered = EXCHANGE.read_reply(
        dump(completion(usage=usage, choices=[said])), make_context()
    ).metered
    assert (metered.tokens, metered.estimated) == (Tokens(9, output=output), True)
    assert metered.unreported


def test_a_reply_that_says_nothing_and_why_it_ended_is_a_reply() -> None:
    reply = EXCHANGE.read_reply(dump(completion(usage=None, choices=[answer("")])), make_context())
    assert (reply.failure, reply.metered.tokens) == (None, Tokens(INPUT_ESTIMATE))


def test_several_choices_pass() -> None:
    value = completion(choices=[answer("a", 0), answer("b", 1)])
    assert read(value) == {**value, "model": MODEL}


def test_a_model_that_is_missing_is_given() -> None:
    value = completion()
    del value["model"]
    assert read(value)["model"] == MODEL


def test_broken_text_passes() -> None:
    body = dump(completion()).replace(b"Hi", b"\xff\\ud800")
    reply = EXCHANGE.read_reply(body, make_context())
    assert reply.body == body.replace(b'"theirs"', b'"our/model"')


@each_row(
    ("body", "message"),
    [
        (b"", "is not JSON"),
        (b"<html>", "is not JSON"),
        (dump(completion())[:-1], "is not JSON"),
        (b"data: {}\n\n", "is not JSON"),
        (b"[]", "not a chat completion"),
        (b"{}", "not a chat completion"),
        (b'{"choices":{}}', "not a chat completion"),
        (b'{"choices":[1]}', "not a chat completion"),
        (b'{"error":{},"object":"error"}', "answered with an error"),
        (b'{"error":{"message":"said upstream"}}', "said upstream"),
        (b'{"error":{"code":7}}', "answered with an error"),
        (dump(completion(error={"message": "said upstream"})), "said upstream"),
        (b'{"object":"error","message":"flat"}', "flat"),
    ],
)
def test_what_is_no_completion_is_the_upstreams_fault(body: bytes, message: str) -> None:
    """Errors in a 200 too; a JSON reply that is cut never looks complete."""
    with pytest.raises(UpstreamError, match=message) as raised:
        EXCHANGE.read_reply(body, make_context())
    assert raised.value.status == 502
    with pytest.raises(UpstreamError, match=message):
        EXCHANGE.replay_reply(body)


@fuzz(120)
@given(
    st.fixed_dictionaries(
        {"choices": st.lists(json_values | st.just(answer()), max_size=2)},
        optional=dict.fromkeys(("id", "object", "model", "usage", "created"), json_values),
    )
)
def test_no_reply_raises_anything_but_upstream_error(value: dict[str, Any]) -> None:
    try:
        reply = EXCHANGE.read_reply(dump(value), make_context())
    except UpstreamError:
        return
    if reply.failure is not None:
        return
    mended = json.loads(reply.body)
    assert mended["id"].startswith("chatcmpl-")
    assert (mended["object"], mended["model"]) == ("chat.completion", MODEL)
    assert isinstance(mended["usage"], dict)


@each_row("depth", [300, 1000])
def test_a_deeply_nested_reply_is_no_fault_of_ours(depth: int) -> None:
    """It is read, or refused as the upstream's fault, whatever has to be rewritten."""
    body = dump(completion(object="x"))[:-1] + b',"x":' + b"[" * depth + b"]" * depth + b"}"
    with contextlib.suppress(UpstreamError):
        assert EXCHANGE.read_reply(body, make_context()).metered.tokens.output == 3


def test_a_reply_is_replayed_as_the_stream_it_should_have_been() -> None:
    out = EXCHANGE.replay_reply(b"\n" + dump(completion(choices=[answer("a", 0), answer("b", 1)])))
    assert out.endswith(DONE)
    chunks = read_chunks(out.removesuffix(DONE))
    rest = {"logprobs": None, "finish_reason": "stop"}
    assert [one["choices"] for one in chunks] == [
        [{"index": 0, "delta": {"role": "assistant", "content": "a"}, **rest}],
        [{"index": 1, "delta": {"role": "assistant", "content": "b"}, **rest}],
        [],
    ]
    assert [one.get("usage") for one in chunks] == [None, None, USAGE]


def test_replayed_choices_keep_their_index() -> None:
    out = EXCHANGE.replay_reply(dump(completion(choices=[answer("b", 1), answer("a", 0)])))
    said = {
        one["choices"][0]["index"]: one["choices"][0]["delta"]["content"]
        for one in read_chunks(out.removesuffix(DONE))
        if one["choices"]
    }
    assert said == {0: "a", 1: "b"}


def test_a_reply_without_a_finish_reason_is_cut_short() -> None:
    broken = completion(choices=[{"message": {"content": "a" * 80}}])
    cut = dump(broken)
    reply = EXCHANGE.read_reply(cut, make_context())
    assert isinstance(reply.failure, UndeliverableReply)
    unreported = EXCHANGE.read_reply(dump(broken | {"usage": None}), make_context())
    assert isinstance(unreported.failure, UndeliverableReply)
    assert (reply.metered.tokens.output, reply.metered.estimated) == (20, True)
    replayed = play(ChatStream(make_context()), [EXCHANGE.replay_reply(cut)])
    assert not replayed.complete
