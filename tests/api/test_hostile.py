"""Bad JSON and bad fields on raw sockets: the right status, and one log line."""

from __future__ import annotations

import json
from typing import Any

from tests.support.chat import check_error, check_messages_error, say
from tests.support.messages import ask
from tests.support.replies import completion, json_reply
from tests.support.rows import each_row
from tests.support.stage import Stage

Json = dict[str, Any]
MODEL = "plain/0"
GOOD = json.dumps(say(MODEL, "Say hello to xyzzy.")).encode()


def with_fields(fields: str) -> bytes:
    """Make a good body with raw JSON in it that Python would not write."""
    return GOOD[:-1] + b", " + fields.encode() + b"}"


BAD_BODIES: dict[str, tuple[bytes, str | None]] = {
    "empty": (b"", None),
    "truncated": (GOOD[:-5], None),
    "array": (b"[]", None),
    "invalid utf-8": (GOOD.replace(b"hello", b"h\xffllo"), None),
    "lone surrogate": (GOOD.replace(b"hello", rb"\ud800"), None),
    "nan": (with_fields('"temperature": NaN'), None),
    "5 000 digits": (with_fields('"max_tokens": ' + "1" * 5000), None),
    "depth": (with_fields('"x": ' + "[" * 100_000 + "]" * 100_000), None),
    "depth in an object": (with_fields('"x": ' + '{"a":' * 50_000 + "1" + "}" * 50_000), None),
    "max_tokens": (with_fields('"max_tokens": -1'), "max_tokens"),
    "n": (with_fields('"n": 129'), "n"),
    "messages": (with_fields('"messages": ["hi"]'), "messages[0]"),
}
"""One of each kind: which values are wrong is known to the tests of the dialect."""


@each_row("name", BAD_BODIES)
async def test_bad_body_is_a_400_that_names_the_field(stage: Stage, name: str) -> None:
    body, param = BAD_BODIES[name]
    reply = await stage.chat(body)
    code = reply.json["error"]["code"]
    message = check_error(reply, 400, code, param=param)
    assert "xyzzy" not in message, "no prompt in an error"
    assert stage.alpha.connections == 0
    await stage.check_log(reply)


@each_row("model", ["no-such-model", "../x", "plain/0/", "m" * 10_000, "<script>", "PLAIN/0", ""])
async def test_unknown_model_is_a_400(stage: Stage, model: str) -> None:
    """The status is 400 for any such name, and the message does not repeat a long one."""
    reply = await stage.chat(say(model))
    message = check_error(reply, 400, "model_not_found", param="model")
    assert len(message) < 400
    await stage.check_log(reply)


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


def user(*blocks: Json) -> Json:
    return {"messages": [{"role": "user", "content": list(blocks)}]}


FILE_ID = {"type": "file", "file_id": "file_1"}
TOOL: Json = {"name": "t", "input_schema": {"type": "object"}}
CANNOT_BE_CARRIED: list[tuple[str, Json, str]] = [
    ("messages", {"top_k": 5}, "top_k"),
    ("messages", {"brand_new": {"a": 1}}, "brand_new"),
    ("messages", {"tools": [TOOL | {"brand_new": 1}]}, "tools.0.brand_new"),
    ("messages", user({"type": "image", "source": FILE_ID}), "messages.0.content.0.source"),
    ("messages", {"thinking": {"type": "adaptive", "x": 1}}, "thinking.x"),
    ("chat", {"n": 2}, "n"),
    ("chat", {"brand_new": 1}, "brand_new"),
    ("chat", user({"type": "file", "file": FILE_ID}), "messages[0].content[0].file.file_id"),
]
"""The caller's dialect and fields, over a provider of the other; the translations know all rows."""


@each_row("stream", [False, True])
@each_row(("caller", "fields", "where"), CANNOT_BE_CARRIED)
async def test_what_a_provider_cannot_take_is_refused_by_name(
    stage: Stage, caller: str, fields: Json, where: str, *, stream: bool
) -> None:
    """Nothing reaches the provider or the ledger."""
    if caller == "chat":
        reply = await stage.chat(say("messages/0", stream=stream) | fields)
        check_error(reply, 400, reply.json["error"]["code"], param=where)
    else:
        reply = await stage.message(ask("plain/0", stream=stream) | fields)
        check_messages_error(reply, 400, "invalid_request_error")
    assert where in reply.json["error"]["message"]
    assert stage.books.request(reply.request_id) is None
    assert stage.alpha.exchanges == []
