"""Bodies of chat requests that are no JSON, or odd. `requests` has what is read, passed and refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.base.errors import BadRequest
from gateway.dialects.wire.records import Target
from tests.dialects.chat.kit import dump
from tests.support.formats import CALLERS, EXCHANGES
from tests.support.rows import each_row

USER = {"role": "user", "content": "Hi"}


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [USER], **fields}


def messages(*items: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(items)}


def test_of_duplicate_keys_the_last_is_priced_and_sent() -> None:
    data = b'{"model":"a","model":"b","max_tokens":9,"max_tokens":2,"messages":[{"role":"user","content":"x"}]}'
    request = CALLERS["chat"].parse_request(data)
    assert (request.model, request.max_tokens) == ("b", 2)
    sent = EXCHANGES["chat"]["chat"].write_request(request, Target("u", ask_usage=False)).data
    assert sent.count(b"max_tokens") == 1
    assert json.loads(sent)["max_tokens"] == 2


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
