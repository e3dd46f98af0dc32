"""Bad JSON and bad fields on raw sockets: the right status, and one log line."""

from __future__ import annotations

import json

from tests.support.chat import check_error, say
from tests.support.replies import completion, json_reply
from tests.support.rows import each_row
from tests.support.stage import Stage

MODEL = "plain/0"
GOOD = json.dumps(say(MODEL, "Say hello to xyzzy.")).encode()


def with_fields(fields: str) -> bytes:
    """Make a good body with raw JSON in it that Python would not write."""
    return GOOD[:-1] + b", " + fields.encode() + b"}"


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


@each_row("name", BAD_BODIES)
async def test_bad_body_is_a_400_that_names_the_field(stage: Stage, name: str) -> None:
    body, param = BAD_BODIES[name]
    reply = await stage.chat(body)
    code = reply.json["error"]["code"]
    message = check_error(reply, 400, code, param=param)
    assert "xyzzy" not in message, "no prompt in an error"
    assert stage.alpha.connections == 0
    await stage.check_log(reply)


async def test_truncated_json_is_told_where(stage: Stage) -> None:
    reply = await stage.chat(GOOD[:-5])
    assert any(digit in check_error(reply, 400, None) for digit in "0123456789")


@each_row("model", ["no-such-model", "../x", "plain/0/", "m" * 10_000, "<script>", "PLAIN/0", ""])
async def test_unknown_model_is_a_400(stage: Stage, model: str) -> None:
    """The status is 400 for any such name, and the message does not repeat a long one."""
    reply = await stage.chat(say(model))
    message = check_error(reply, 400, "model_not_found", param="model")
    assert len(message) < 400
    await stage.check_log(reply)


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


@each_row("name", PASSING)
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
