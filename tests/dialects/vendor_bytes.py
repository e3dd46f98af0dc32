"""Replies and streams as vendors send them, and their reading by the SDKs of all callers."""

from __future__ import annotations

import json
from typing import Any, Final

from anthropic.types import Message
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from gateway.dialects.exchanges import EXCHANGES
from gateway.dialects.records import Reply
from tests.dialects.chat.kit import (
    DONE,
    Json,
    Played,
    check_stream,
    chunk,
    dump,
    each_byte,
    events,
    make_context,
    play,
    role,
    stop,
)
from tests.dialects.chat_over_messages.kit import frame as frame_messages
from tests.dialects.chat_over_responses.kit import frame as frame_responses
from tests.dialects.messages_over_chat.kit import accumulate as add_up_message
from tests.dialects.messages_over_chat.kit import check_events as check_message
from tests.dialects.messages_over_chat.kit import read_events
from tests.dialects.responses_over_chat.kit import read_response

PAIRS: Final = [
    ("chat", "messages"),
    ("chat", "responses"),
    ("messages", "chat"),
    ("messages", "responses"),
    ("responses", "chat"),
    ("responses", "messages"),
]
"""Callers, and the providers that they reach by a translation."""
CHAT_USAGE: Final = {"prompt_tokens": 9, "completion_tokens": 30, "total_tokens": 39}
USAGE: Final = {"input_tokens": 9, "output_tokens": 30}
ENDED: Final = {"stop_reason": "end_turn", "stop_sequence": None}
MESSAGE: Final = {"id": "msg_1", "type": "message", "role": "assistant", "model": "theirs"}
RESPONSE: Final = {"id": "resp_1", "object": "response", "created_at": 1, "model": "theirs"}


def completion(message: Json, finish: str = "stop") -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    head = {"id": "gen-1", "object": "chat.completion", "created": 1, "model": "theirs"}
    return dump({**head, "choices": [choice], "usage": CHAT_USAGE})


def chunks(*deltas: Json, finish: str = "stop", usage: Json | None = CHAT_USAGE) -> bytes:
    said = [chunk({"index": 0, "delta": delta, "finish_reason": None}) for delta in deltas]
    told = [] if usage is None else [chunk(usage=usage)]
    return events(chunk(role()), *said, chunk(stop(finish=finish)), *told) + DONE


def message(*blocks: Json) -> bytes:
    return dump({**MESSAGE, "content": blocks, **ENDED, "usage": USAGE})


def message_events(*blocks: tuple[Json, list[Json]]) -> bytes:
    """Write a stream of blocks, each as its start and its deltas."""
    begun: Json = {**MESSAGE, "content": [], "stop_reason": None, "usage": {"input_tokens": 9}}
    made: list[Json] = [{"type": "message_start", "message": begun}]
    for index, (start, deltas) in enumerate(blocks):
        where = {"index": index}
        made += (
            {"type": "content_block_start", **where, "content_block": start},
            *({"type": "content_block_delta", **where, "delta": one} for one in deltas),
            {"type": "content_block_stop", **where},
        )
    ending = {"type": "message_delta", "delta": ENDED, "usage": USAGE}
    return frame_messages(*made, ending, {"type": "message_stop"})


def response(*items: Json) -> bytes:
    return dump({**RESPONSE, "status": "completed", "output": items, "usage": USAGE})


def response_events(*told: Json, output: tuple[Json, ...] = ()) -> bytes:
    begun: Json = {**RESPONSE, "status": "in_progress", "output": []}
    ended = {**RESPONSE, "status": "completed", "output": output, "usage": USAGE}
    return frame_responses(
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        *told,
        {"type": "response.completed", "response": ended},
    )


def read(caller: str, provider: str, data: bytes) -> Reply:
    return EXCHANGES[caller][provider].read_reply(data, make_context(usage=True))


def hear(caller: str, provider: str, data: bytes) -> Played:
    """Play a stream; the slicing of its bytes changes nothing."""
    exchange = EXCHANGES[caller][provider]
    played = play(exchange.open_stream(make_context(usage=True)), [data])
    assert play(exchange.open_stream(make_context(usage=True)), each_byte(data)) == played
    return played


def parse(caller: str, out: bytes) -> Json:
    """Return a reply that the caller's SDK takes."""
    reply: Json = json.loads(out)
    model: Any = {"chat": ChatCompletion, "messages": Message, "responses": Response}[caller]
    model.model_validate(reply, strict=True)
    return reply


def add_up(caller: str, played: Played) -> Json:
    """Add up a stream by the caller's SDK."""
    assert (played.complete, played.failure) == (True, None)
    if caller == "responses":
        return read_response(played)
    if caller == "messages":
        told = read_events(played.out)
        check_message(told)
        return dict(add_up_message(told).model_dump())
    check_stream(played.chunks, usage=True)
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for one in played.chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate(one, strict=True))
    return dict(state.get_final_completion().model_dump())
