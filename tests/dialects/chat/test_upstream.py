"""JSON replies of chat upstreams: conforming bytes pass, others are repaired."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.base.errors import UndeliverableReply, UpstreamError
from gateway.base.money import Tokens
from gateway.dialects.chat.stream import ChatStream
from tests.dialects.chat.kit import DONE, MODEL, dump, make_context, play, read_chunks
from tests.support.formats import EXCHANGES
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


def test_a_reply_that_cannot_be_edited_in_place_is_written_anew() -> None:
    body = dump(completion(id="5319bd")).replace(b'"model":', b'"model" :')
    assert read(body) == completion(id="chatcmpl-5319bd", model=MODEL)


def test_broken_text_passes() -> None:
    body = dump(completion()).replace(b"Hi", b"\xff\\ud800")
    reply = EXCHANGE.read_reply(body, make_context())
    assert reply.body == body.replace(b'"theirs"', b'"our/model"')


@each_row("created", [None, "1", 1.5, True])
def test_a_reply_has_the_time_of_its_creation(created: object) -> None:
    assert read(completion(created=created))["created"] == make_context().created


@each_row(
    ("message", "content"),
    [
        ({}, ""),  # Gemini, when all tokens went into reasoning
        ({"content": None}, ""),
        ({"content": None, "reasoning_content": "r"}, ""),
        ({"content": None, "tool_calls": []}, ""),
        ({"content": None, "refusal": "no"}, None),
        ({"content": None, "audio": {"id": "a"}}, None),
        ({"content": None, "tool_calls": [{"id": "c", "type": "function", "function": {}}]}, None),
    ],
)
def test_a_message_has_a_text_unless_it_has_something_else(
    message: dict[str, Any], content: str | None
) -> None:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "length"}
    assert read(completion(choices=[choice]))["choices"][0]["message"]["content"] == content


def test_a_choice_without_an_index_gets_its_position() -> None:
    shown = read(completion(choices=[answer(index=0), answer() | {"index": None}]))
    assert [one["index"] for one in shown["choices"]] == [0, 1]


def test_a_choice_without_a_message_is_no_reply() -> None:
    """It is so for callers of every dialect, and charged: the provider counted it."""
    body = dump(completion(choices=[{"index": 0, "finish_reason": "stop", "text": "Hi"}]))
    for caller in ("chat", "messages"):
        reply = EXCHANGES[caller]["chat"].read_reply(body, make_context())
        assert isinstance(reply.failure, UndeliverableReply)
        assert reply.metered.tokens == Tokens(9, output=3)


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
    body = b"\n" + dump(completion(choices=[answer("a", 0), answer("b", 1)]))
    out = EXCHANGE.replay_reply(body, make_context()).body
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
    body = dump(completion(choices=[answer("b", 1), answer("a", 0)]))
    out = EXCHANGE.replay_reply(body, make_context()).body
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
    replayed = play(ChatStream(make_context()), [EXCHANGE.replay_reply(cut, make_context()).body])
    assert not replayed.complete
