"""Bad input on raw sockets: the right status, in the caller's dialect, and one log line."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json

import pytest

from tests.support.chat import check_error, check_messages_error, say
from tests.support.client import Reply, request
from tests.support.config import MAX_BODY_MB
from tests.support.process import CHAT, COUNT_TOKENS, MESSAGES
from tests.support.replies import chunked, completion, json_reply
from tests.support.stage import Stage
from tests.support.waiting import until

MODEL = "plain/0"
GOOD = json.dumps(say(MODEL, "Say hello to xyzzy.")).encode()
JSON_TYPE = {"Content-Type": "application/json"}


def with_fields(fields: str) -> bytes:
    """Make a good body with raw JSON in it that Python would not write."""
    return GOOD[:-1] + b", " + fields.encode() + b"}"


async def check_log(stage: Stage, reply: Reply) -> None:
    """Check that one line reports the request, without its content."""
    await until(lambda: reply.request_id in stage.gateway.log, "a line in the log")
    lines = [line for line in stage.gateway.log.splitlines() if reply.request_id in line]
    assert len(lines) == 1, lines
    assert len(lines[0]) < 1000
    assert "Traceback" not in stage.gateway.log


BAD_BODIES: dict[str, tuple[bytes, str | None]] = {
    "empty": (b"", None),
    "not json": (b"hello", None),
    "truncated": (GOOD[:-5], None),
    "array": (b"[]", None),
    "string": (b'"x"', None),
    "number": (b"1", None),
    "null": (b"null", None),
    "invalid utf-8": (GOOD.replace(b"hello", b"h\xffllo"), None),
    "utf-16": (GOOD.decode().encode("utf-16"), None),
    "lone surrogate": (GOOD.replace(b"hello", rb"\ud800"), None),
    "nan": (with_fields('"temperature": NaN'), None),
    "infinity": (with_fields('"temperature": Infinity'), None),
    "1e999": (with_fields('"temperature": 1e999'), None),
    "5 000 digits": (with_fields('"max_tokens": ' + "1" * 5000), None),
    "depth": (with_fields('"x": ' + "[" * 100_000 + "]" * 100_000), None),
    "depth in an object": (with_fields('"x": ' + '{"a":' * 50_000 + "1" + "}" * 50_000), None),
    "max_tokens -1": (with_fields('"max_tokens": -1'), "max_tokens"),
    "max_tokens 1e18": (with_fields('"max_tokens": 1e18'), "max_tokens"),
    "max_tokens 30 digits": (with_fields('"max_tokens": 1' + "0" * 29), "max_tokens"),
    "max_tokens string": (with_fields('"max_tokens": "10"'), "max_tokens"),
    "max_tokens boolean": (with_fields('"max_tokens": true'), "max_tokens"),
    "max_tokens 0.5": (with_fields('"max_tokens": 0.5'), "max_tokens"),
    "max_completion_tokens": (
        with_fields('"max_completion_tokens": -1'),
        "max_completion_tokens",
    ),
    "n 0": (with_fields('"n": 0'), "n"),
    "n 129": (with_fields('"n": 129'), "n"),
    "n 10 000": (with_fields('"n": 10000'), "n"),
    "n string": (with_fields('"n": "2"'), "n"),
    "stream string": (with_fields('"stream": "true"'), "stream"),
    "stream 1": (with_fields('"stream": 1'), "stream"),
    "stream_options": (with_fields('"stream": true, "stream_options": 7'), "stream_options"),
    "no model": (json.dumps({"messages": say(MODEL)["messages"]}).encode(), "model"),
    "model null": (with_fields('"model": null'), "model"),
    "model number": (with_fields('"model": 7'), "model"),
    "temperature 2.1": (with_fields('"temperature": 2.1'), "temperature"),
    "temperature -0.1": (with_fields('"temperature": -0.1'), "temperature"),
    "temperature string": (with_fields('"temperature": "1"'), "temperature"),
    "top_p 1.1": (with_fields('"top_p": 1.1'), "top_p"),
    "stop number": (with_fields('"stop": 7'), "stop"),
    "stop of numbers": (with_fields('"stop": ["a", 7]'), "stop"),
    "no messages": (b'{"model": "plain/0"}', "messages"),
    "messages empty": (b'{"model": "plain/0", "messages": []}', "messages"),
    "messages object": (b'{"model": "plain/0", "messages": {}}', "messages"),
    "message string": (b'{"model": "plain/0", "messages": ["hi"]}', "messages[0]"),
    "role missing": (
        b'{"model": "plain/0", "messages": [{"content": "hi"}]}',
        "messages[0].role",
    ),
    "role unknown": (
        b'{"model": "plain/0", "messages": [{"role": "robot", "content": "hi"}]}',
        "messages[0].role",
    ),
    "content number": (
        b'{"model": "plain/0", "messages": [{"role": "user", "content": 7}]}',
        "messages[0].content",
    ),
    "content missing": (
        b'{"model": "plain/0", "messages": [{"role": "user"}]}',
        "messages[0].content",
    ),
}


@pytest.mark.parametrize("name", BAD_BODIES)
async def test_bad_body_is_a_400_that_names_the_field(stage: Stage, name: str) -> None:
    body, param = BAD_BODIES[name]
    reply = await stage.chat(body)
    code = reply.json["error"]["code"]
    message = check_error(reply, 400, code, param=param)
    assert "xyzzy" not in message, "no prompt in an error"
    assert stage.alpha.connections == 0
    await check_log(stage, reply)


async def test_truncated_json_is_told_where(stage: Stage) -> None:
    reply = await stage.chat(GOOD[:-5])
    assert any(digit in check_error(reply, 400, None) for digit in "0123456789")


@pytest.mark.parametrize(
    "model", ["no-such-model", "../x", "plain/0/", "m" * 10_000, "<script>", "PLAIN/0", ""]
)
async def test_unknown_model_is_a_400(stage: Stage, model: str) -> None:
    """The status is 400 for any such name, and the message does not repeat a long one."""
    reply = await stage.chat(say(model))
    message = check_error(reply, 400, "model_not_found", param="model")
    assert len(message) < 400
    await check_log(stage, reply)


PASSING: dict[str, dict[str, object]] = {
    "max_tokens 0": {"max_tokens": 0},
    "max_tokens null": {"max_tokens": None},
    "n null": {"n": None},
    "stop array": {"stop": ["a", "b"]},
    "logprobs and best_of": {"logprobs": True, "top_logprobs": 2, "best_of": 2},
    "temperature 2": {"temperature": 2},
    "a vendor's own": {"chat_template_kwargs": {"thinking": True}, "top_k": 5},
    "content of null": {
        "messages": [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c",
                        "type": "function",
                        "function": {"name": "f", "arguments": "{no json"},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": "7"},
        ]
    },
    "content parts": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "what is this?"},
                    {"type": "image_url", "image_url": {"url": "https://example.test/a.png"}},
                ],
            }
        ]
    },
}


@pytest.mark.parametrize("name", PASSING)
async def test_fields_pass_as_they_are(stage: Stage, name: str) -> None:
    """Valid and unknown fields reach the upstream unchanged."""
    stage.alpha.play(json_reply(completion()))
    reply = await stage.chat(say(stage.fresh("plain")) | PASSING[name])
    assert reply.status == 200, reply.body
    sent = stage.alpha.last.json
    assert {field: sent.get(field) for field in PASSING[name]} == PASSING[name]


async def test_byte_order_mark_is_stripped_or_refused(stage: Stage) -> None:
    """RFC 8259, section 8.1, leaves both to the reader."""
    stage.alpha.always(json_reply(completion()))
    reply = await stage.chat(b"\xef\xbb\xbf" + GOOD)
    assert reply.status in {200, 400}


async def test_of_duplicate_keys_the_last_is_priced_and_sent(stage: Stage) -> None:
    """The checked value is the one that is sent."""
    model = stage.fresh("plain")
    fields = (
        f'"model": "{model}", "max_tokens": 3, "stream": true, "max_tokens": 7, "stream": false'
    )
    stage.alpha.play(json_reply(completion()))
    reply = await stage.chat(with_fields(fields))
    assert reply.json["model"] == model
    body = stage.alpha.last.body
    assert (body.count(b'"model"'), body.count(b'"max_tokens"')) == (1, 1)
    assert stage.alpha.last.json["max_tokens"] == 7


async def test_no_field_or_header_changes_where_a_request_goes(stage: Stage) -> None:
    """The sink receives nothing, and our key goes to no other host."""
    sink = stage.running.places.urls["beta"]
    fields = ("api_base", "base_url", "callback_url", "api_key", "organization")
    body = say(stage.fresh("plain"), user_config={"api_base": sink}, extra_headers={"Host": sink})
    stage.alpha.play(json_reply(completion()))
    hosts = {"X-Forwarded-Host": sink, "X-Forwarded-For": sink, "Forwarded": f"host={sink}"}
    reply = await stage.chat(body | dict.fromkeys(fields, sink), headers=hosts)
    assert reply.status == 200
    assert stage.beta.connections == 0
    sent = stage.alpha.last
    assert sent.json["api_base"] == sink
    assert sent.headers["authorization"] == f"Bearer {stage.secret}"
    assert stage.key not in str(sent.headers)
    assert not {"x-forwarded-host", "x-forwarded-for", "forwarded"} & set(sent.headers)


async def test_too_large_is_refused_at_its_declaration(stage: Stage) -> None:
    """Refused before any byte of the body came."""
    headers = JSON_TYPE | {"Authorization": f"Bearer {stage.key}", "Content-Length": str(10**10)}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, headers))
        reply = await call.read_all()
        check_error(reply, 413, "request_too_large")
        await call.read_to_close()
    await check_log(stage, reply)


async def test_too_large_is_refused_when_it_is_not_declared(stage: Stage) -> None:
    """Refused one byte beyond the limit, in chunks."""
    size = MAX_BODY_MB * 2**20 + 1
    head = request("POST", CHAT, JSON_TYPE | {
        "Authorization": f"Bearer {stage.key}", "Transfer-Encoding": "chunked"
    })  # fmt: skip
    async with stage.gateway.connect() as call:
        await call.send(head + b"%x\r\n" % size + b" " * size + b"\r\n0\r\n\r\n")
        check_error(await call.read_all(), 413, "request_too_large")


BAD_CHUNKS = {
    "no size": b"zz\r\n",
    "a negative size": b"-5\r\n",
    "no line end behind a chunk": b"5\r\nhelloworld",
    "a size beyond all": b"f" * 40 + b"\r\n",
}


async def send_bad_chunk(stage: Stage, path: str, bad: bytes) -> Reply:
    """Send a body whose second chunk is bad; return the reply, after which the connection ends."""
    headers = JSON_TYPE | {"x-api-key": stage.key, "Transfer-Encoding": "chunked"}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", path, headers) + chunked(GOOD[:20]))
        await asyncio.sleep(0.1)  # so that the body has begun; nothing tells
        await call.send(bad)
        reply = await call.read_all()
        assert await call.read_to_close() == b""
    return reply


async def test_chunks_framed_wrongly_are_a_400_at_once(stage: Stage) -> None:
    """The reply comes at once. The cases run together, as each connection lingers for 2 s."""
    cases = list(itertools.product((CHAT, MESSAGES, COUNT_TOKENS), BAD_CHUNKS.values()))
    for reply in await asyncio.gather(*(send_bad_chunk(stage, *case) for case in cases)):
        if "request_id" in reply.json:
            check_messages_error(reply, 400, "invalid_request_error")
        else:
            check_error(reply, 400, None)
        await check_log(stage, reply)
    assert stage.alpha.connections == 0


async def test_largest_body_passes(stage: Stage) -> None:
    body = json.dumps(say(stage.fresh("plain"))).encode()
    stage.alpha.play(json_reply(completion()))
    padded = body + b" " * (MAX_BODY_MB * 2**20 - len(body))
    assert (await stage.chat(padded)).status == 200


ENCODINGS = ["gzip", "deflate", "br", "zstd", "gzip, gzip, gzip", "x-unknown"]


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_encoded_body_is_a_415(stage: Stage, encoding: str) -> None:
    """A decompression bomb is never unpacked."""
    body = gzip.compress(GOOD + b" " * 2**20)
    reply = await stage.chat(body, headers={"Content-Encoding": encoding})
    check_error(reply, 415, "unsupported_media_type")
    await check_log(stage, reply)


async def test_body_that_only_claims_to_be_encoded_is_a_415(stage: Stage) -> None:
    reply = await stage.chat(GOOD, headers={"Content-Encoding": "gzip"})
    check_error(reply, 415, "unsupported_media_type")


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "text/plain",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded",
        "",
    ],
)
async def test_other_content_types_are_a_415(stage: Stage, kind: str | None) -> None:
    """A form of another site cannot send JSON, and other content is not guessed at."""
    headers = [] if kind is None else [("Content-Type", kind)]
    reply = await stage.gateway.ask("POST", CHAT, key=stage.key, headers=headers, body=GOOD)
    check_error(reply, 415, "unsupported_media_type")
    await check_log(stage, reply)


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/json; charset=utf-7"},
        {"Content-Type": "Application/JSON"},
        {"Content-Type": "application/vnd.api+json"},
        {"Content-Type": "application/json", "Content-Encoding": "identity"},
        {"Content-Type": "application/json", "Accept": "text/event-stream"},
    ],
)
async def test_json_by_other_names_passes(stage: Stage, headers: dict[str, str]) -> None:
    stage.alpha.play(json_reply(completion()))
    body = json.dumps(say(stage.fresh("plain"))).encode()
    reply = await stage.gateway.ask("POST", CHAT, key=stage.key, headers=headers, body=body)
    assert reply.status == 200, reply.body
