"""JSON replies of chat upstreams: conforming bytes pass, others are repaired."""

from __future__ import annotations

import json
from typing import Any

from gateway.base.errors import UndeliverableReply
from gateway.base.money import Tokens
from tests.dialects.chat.kit import MODEL, dump, make_context
from tests.support.formats import EXCHANGES
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


def test_what_is_no_choice_passes_beside_one() -> None:
    assert read(completion(choices=[answer(), 7]))["choices"] == [answer(), 7]


def test_a_choice_without_a_message_is_no_reply() -> None:
    """It is so for callers of every dialect, and charged: the provider counted it."""
    body = dump(completion(choices=[{"index": 0, "finish_reason": "stop", "text": "Hi"}]))
    for caller in ("chat", "messages"):
        reply = EXCHANGES[caller]["chat"].read_reply(body, make_context())
        assert isinstance(reply.failure, UndeliverableReply)
        assert reply.metered.tokens == Tokens(9, output=3)
