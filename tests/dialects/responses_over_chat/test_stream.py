"""Chat replies and streams as responses: the echo, the position, what is held. `heard.txt` has the rest."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from openai.types.responses import ResponseOutputRefusal, ResponseOutputText
from openai.types.responses.response_reasoning_item import Summary
from pydantic import BaseModel

from gateway.dialects import to_chat
from gateway.dialects.exchanges import TRANSLATIONS
from gateway.dialects.records import ReplyUsage
from gateway.dialects.responses.over_chat_reply import make_part
from gateway.dialects.responses.over_chat_stream import FORMS, ResponseWriter
from gateway.dialects.to_chat import Kind
from gateway.money import Tokens
from tests.dialects.chat.kit import choice, chunk, dump, text
from tests.dialects.messages_over_chat.kit import USED, completion, fragment, read_events, stream
from tests.dialects.responses_over_chat.kit import (
    EXCHANGE,
    accumulate,
    make_context,
    play_whole,
    read_response,
)
from tests.support.rows import each_row


def test_the_request_is_echoed() -> None:
    asked: dict[str, Any] = {
        "stream": True,
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": False}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "top_p": 0.0,
        "max_output_tokens": 9,
        "metadata": {"a": "b"},
        "reasoning": {"effort": "low"},
        "text": {"verbosity": "low"},
        "user": "u",
    }
    response = read_response(play_whole(stream(text("a")), asked))
    told = {key: response[key] for key in asked if key not in {"stream", "text"}}
    assert told == {key: value for key, value in asked.items() if key in told}
    assert response["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert (response["store"], response["model"]) == (False, "our/model")


def test_an_effort_that_was_not_sent_is_not_told() -> None:
    context = make_context({"reasoning": {"effort": "high", "summary": "auto"}})
    context.effort_sent = False
    reply = EXCHANGE.read_reply(dump(completion({"content": "hi"})), context)
    assert json.loads(reply.body)["reasoning"] == {"effort": None, "summary": "auto"}


def test_position_is_where_an_error_would_continue() -> None:
    """The numbers go on, the id stays, and what was done is told."""
    translation = TRANSLATIONS["responses", "chat"]
    writer = translation.open_writer(make_context())
    assert isinstance(writer, ResponseWriter)
    assert writer.position is None
    writer.open(ReplyUsage(Tokens(), estimated=False, reported=None))
    writer.write(chunk(choice({"reasoning_content": "hm"})))
    writer.write(chunk(text("a")))
    sent = read_events(writer.take())
    position = writer.position
    assert position is not None
    assert position["sequence_number"] == len(sent)
    response = position["response"]
    assert [item["type"] for item in response["output"]] == ["reasoning"]
    failed = {**response, "status": "failed", "error": {"code": "server_error", "message": "no"}}
    last = {"type": "response.failed", "response": failed, "sequence_number": len(sent)}
    assert accumulate([*sent, last]).status == "failed"
    writer.flush()
    writer.close(ReplyUsage(USED, estimated=False, reported=None))
    before = len(sent) + len(read_events(writer.take()))
    assert writer.position is not None
    assert writer.position["sequence_number"] == before
    assert read_events(writer.finish())[0]["sequence_number"] == before


def test_what_comes_back_stands_before_the_text_or_alone() -> None:
    """State for the upstream gets an item of its own where no reasoning carries it."""
    writer = ResponseWriter(replace(make_context(), provider_tag="gw1.00000000."))
    details = choice({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]})
    writer.write(chunk(details, text("Hi"), details))
    writer.flush()
    done = [one["item"] for one in read_events(writer.take()) if "item.done" in one["type"]]
    assert [item["type"] for item in done] == ["reasoning", "message", "reasoning"]
    assert all(item["encrypted_content"].startswith("gw1.") for item in done[::2])


def test_a_reply_is_not_held_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(to_chat, "MAX_HELD_CHARS", 4)
    assert play_whole(stream(text("abcd"))).complete
    drawn = choice({"images": [{"image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]})
    for choices in ([text("abc"), text("de")], [fragment(0, "abcde", id="c")], [drawn]):
        played = play_whole(stream(*choices))
        assert played.failure == "The upstream's reply is too large."
        assert not played.complete


MODELS: dict[Kind, type[BaseModel]] = {
    "reasoning": Summary,
    "refusal": ResponseOutputRefusal,
    "text": ResponseOutputText,
}


@each_row("kind", FORMS)
def test_a_part_is_what_the_models_say(kind: Kind) -> None:
    part = MODELS[kind].model_validate(make_part(kind, "a"), strict=True)
    assert getattr(part, FORMS[kind].key) == "a"
    assert make_part(kind, "a")[FORMS[kind].key] == "a"
