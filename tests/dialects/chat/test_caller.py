"""Chat requests: a valid one passes unchanged, an error names the invalid field."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.exchanges import CALLERS, EXCHANGES
from gateway.dialects.records import Target
from gateway.errors import BadRequest
from tests.dialects.chat.kit import dump
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

USER = {"role": "user", "content": "Hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{not json"}}


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [USER], **fields}


def messages(*items: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(items)}


def parts(*items: Any) -> dict[str, Any]:
    return messages({"role": "user", "content": list(items)})


VALID: dict[str, dict[str, Any]] = {
    "least": body(),
    "nulls are absence": body(
        stream=None, n=None, stop=None, temperature=None, stream_options=None
    ),
    "bounds, low": body(
        max_tokens=0, max_completion_tokens=0, n=1, temperature=0, top_p=0, stop=[]
    ),
    "bounds, high": body(max_tokens=2**32, n=128, temperature=2, top_p=1.0, stop=["a"] * 9),
    "stop string": body(stop="END"),
    "unknown fields": body(
        api_base="http://169.254.169.254", user_config={}, extra_headers={"a": 1}
    ),
    "vendor fields": body(reasoning={"effort": "low"}, top_k=4, chat_template_kwargs={"x": [1]}),
    "every role": messages(
        {"role": "system", "content": "s"},
        {"role": "developer", "content": [{"type": "text", "text": "d"}]},
        {**USER, "name": "n"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant", "tool_calls": [{"type": "custom", "custom": {"input": "x"}}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "t", "tool_calls": None},
        {"role": "function", "name": "f", "content": None},
    ),
    "parts": parts(
        {"type": "text", "text": "ünï"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}},
        {"type": "what_comes_next", "x": 1},
    ),
    "tools": body(tools=[{"type": "function", "function": {"name": "f"}}], tool_choice="auto"),
    "response format": body(response_format={"type": "json_object"}, logit_bias={"50256": -100}),
    "stream options": body(stream=True, stream_options={"include_obfuscation": False}),
    "usage asked": body(stream=True, stream_options={"include_usage": True}),
}


RECORDINGS = frozenset({"input_audio"})


@each_row("ask_usage", [False, True])
@each_row("valid", VALID.values())
def test_a_valid_body_is_forwarded_but_for_model_and_usage_switch(
    valid: dict[str, Any], *, ask_usage: bool
) -> None:
    request = CALLERS["chat"].parse_request(dump(valid))
    sent = json.loads(
        EXCHANGES["chat"]["chat"]
        .write_request(request, Target("up/stream", ask_usage=ask_usage, allow=RECORDINGS))
        .data
    )
    expected = valid | {"model": "up/stream"}
    if not ask_usage:
        expected.pop("stream_options", None)  # such an upstream would refuse it
    if ask_usage and valid.get("stream"):
        options = valid.get("stream_options") or {}
        expected["stream_options"] = options | {"include_usage": True}
    assert sent == expected
    kept = [name for name in valid if name in expected]
    assert list(sent)[: len(kept)] == kept
    assert request.model == "m"


@each_row(
    ("fields", "expected"),
    [
        ({}, (False, False, 1, None)),
        ({"stream": True}, (True, False, 1, None)),
        ({"stream": True, "stream_options": {"include_usage": True}}, (True, True, 1, None)),
        ({"stream_options": {"include_usage": None}}, (False, False, 1, None)),
        ({"n": 3, "max_tokens": 5}, (False, False, 3, 5)),
        ({"max_completion_tokens": 7, "max_tokens": 5}, (False, False, 1, 7)),
        ({"max_completion_tokens": 0, "max_tokens": 5}, (False, False, 1, 5)),
        ({"max_completion_tokens": 4, "max_tokens": 5}, (False, False, 1, 5)),
        ({"max_tokens": 0}, (False, False, 1, None)),
        ({"max_completion_tokens": None, "max_tokens": 5}, (False, False, 1, 5)),
    ],
)
def test_what_the_gateway_reads(fields: dict[str, Any], expected: tuple[object, ...]) -> None:
    request = CALLERS["chat"].parse_request(dump(body(**fields)))
    assert (request.stream, request.wants_usage, request.n, request.max_tokens) == expected


def test_of_duplicate_keys_the_last_is_priced_and_sent() -> None:
    data = b'{"model":"a","model":"b","max_tokens":9,"max_tokens":2,"messages":[{"role":"user","content":"x"}]}'
    request = CALLERS["chat"].parse_request(data)
    assert (request.model, request.max_tokens) == ("b", 2)
    sent = EXCHANGES["chat"]["chat"].write_request(request, Target("u", ask_usage=False)).data
    assert sent.count(b"max_tokens") == 1
    assert json.loads(sent)["max_tokens"] == 2


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 80}}
LINKED = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "A" * 800_000, "format": "wav"}}
PDF = {"type": "file", "file": {"file_data": "data:application/pdf;base64," + "A" * 80_000}}
PLAIN_PICTURE = {"type": "image_url", "image_url": "data:image/png;base64," + "A" * 80}
BARE = {"type": "file", "file": {"file_data": "A" * 80_000}}
ESCAPED = {"type": "file", "file": {"file_data": "data:text/plain," + "A" * 80}}


@each_row(
    ("valid", "base64_chars", "tokens"),
    [
        (body(), 0, 0),
        (parts({"type": "text", "text": "abc"}), 0, 0),
        (parts(PICTURE), 80, 1600),
        (parts(LINKED, PICTURE), 80, 3200),
        (parts(AUDIO), 800_000, 2000),
        (parts(PDF), 80_000, 10_000),
        (parts(ESCAPED), 0, 20_000),
        (parts(PLAIN_PICTURE), 80, 1600),
        (parts({"type": "image_url", "image_url": "https://x/y.png"}), 0, 1600),
        (parts(BARE), 80_000, 10_000),
        (parts({"type": "file", "file": {"file_data": "https://x/y.pdf"}}), 0, 20_000),
        (parts({"type": "video_url", "video_url": {"url": "https://x/y.mp4"}}), 0, 20_000),
        (parts({"type": "document_url", "document_url": "https://x/y.pdf"}), 0, 20_000),
    ],
)
def test_files_are_estimated_by_kind_and_size(
    valid: dict[str, Any], base64_chars: int, tokens: int
) -> None:
    """All else of the body is text, so what is no base64 stays text."""
    request = CALLERS["chat"].parse_request(dump(valid))
    assert (request.base64_chars, request.file_tokens) == (base64_chars, tokens)


LEAST = dump(body())
UNREADABLE = {
    "blank": b" \r\n\t ",
    "truncated": LEAST[:-1],
    "two objects": LEAST + LEAST,
    "null": b"null",
    "invalid UTF-8": LEAST.replace(b"Hi", b"\xff\xfe"),
    "UTF-16": LEAST.decode().encode("utf-16"),
    "BOM": b"\xef\xbb\xbf" + LEAST,
    "lone surrogate": LEAST.replace(b"Hi", rb"\ud800"),
    "NaN": LEAST.replace(b'"Hi"', b'"Hi"}],"temperature":NaN,"x":[{"y":1'),
    "Infinity": b'{"temperature":Infinity}',
    "depth": b"[" * 100_000,
    "raw newline": LEAST.replace(b"Hi", b"a\nb"),
    "bad escape": LEAST.replace(b"Hi", rb"\x41"),
}


@each_row("data", UNREADABLE.values())
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        CALLERS["chat"].parse_request(data)
    assert (refused.value.param, refused.value.code) == (None, None)


def test_a_syntax_error_is_located() -> None:
    with pytest.raises(BadRequest, match=r"could not parse the JSON body .*line 2, column"):
        CALLERS["chat"].parse_request(b'{"model":\n oops}')


@each_row(
    "data",
    [
        LEAST.replace(b'"Hi"', b'"Hi"}],"temperature":1e999,"x":[{"y":1'),
        LEAST[:-1] + b',"max_tokens":' + b"9" * 5000 + b"}",
        LEAST[:-1] + b',"max_tokens":%d}' % (2**32 + 1),
    ],
)
def test_numbers_beyond_all_measure_are_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        CALLERS["chat"].parse_request(data)


@each_row("depth", [260, 1000])
def test_depth_that_can_be_read_but_not_written_is_refused_too(depth: int) -> None:
    deep = LEAST[:-1] + b',"x":' + b"[" * depth + b"]" * depth + b"}"
    request = CALLERS["chat"].parse_request(deep)
    with pytest.raises(BadRequest, match="nested too deeply"):
        EXCHANGES["chat"]["chat"].write_request(request, Target("u"))


def test_what_the_caller_wrote_is_not_echoed() -> None:
    secret = "the-prompt"
    for malformed in (messages({"role": secret, "content": secret}), body(stop={"a": secret})):
        with pytest.raises(BadRequest) as refused:
            CALLERS["chat"].parse_request(dump(malformed))
        assert secret not in refused.value.message


FIELDS = ("model", "messages", "stream", "stream_options", "max_tokens", "n", "stop", "tools")
near = st.fixed_dictionaries(
    {}, optional={name: json_values | st.sampled_from(["m", True, [USER], 3]) for name in FIELDS}
)
near_messages = st.builds(
    body,
    messages=st.lists(
        st.dictionaries(
            st.sampled_from(["role", "content", "tool_calls"]),
            json_values | st.sampled_from(["user", "assistant", [{"type": "text", "text": "x"}]]),
        ),
        max_size=3,
    ),
)


@fuzz(120)
@given(st.binary(max_size=60) | json_values.map(dump) | near.map(dump) | near_messages.map(dump))
def test_no_bytes_raise_anything_but_bad_request(data: bytes) -> None:
    try:
        request = CALLERS["chat"].parse_request(data)
        sent = json.loads(EXCHANGES["chat"]["chat"].write_request(request, Target("u")).data)
    except BadRequest:
        return
    assert sent["model"] == "u"
    assert request.file_tokens >= 0
    assert request.n >= 1


@fuzz(100)
@given(st.integers(0, len(LEAST)), st.binary(max_size=3), st.integers(0, 3))
def test_no_damage_to_a_valid_body_raises_anything_else(at: int, put: bytes, cut: int) -> None:
    with contextlib.suppress(BadRequest):
        CALLERS["chat"].parse_request(LEAST[:at] + put + LEAST[at + cut :])
