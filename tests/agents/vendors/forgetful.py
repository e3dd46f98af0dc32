"""Vendors of the chat dialect that want nothing back: Mistral, Qwen, vLLM, and a plain one."""

from __future__ import annotations

import re
from typing import Final

from tests.agents.vendors.base import Refused, Turn, digest, think
from tests.agents.vendors.chat import Habit, serve, write_calls
from tests.support.replies import Json, json_reply

MISTRAL_ID: Final = re.compile(r"[a-zA-Z0-9]{9}")
MISTRAL_MEMBERS: Final = {
    "assistant": {"role", "content", "tool_calls", "prefix"},
    "system": {"role", "content"},
    "tool": {"role", "content", "tool_call_id", "name"},
    "user": {"role", "content"},
}


def _refuse_extra(*place: object) -> Refused:
    detail = {"type": "extra_forbidden", "loc": place, "msg": "Extra inputs are not permitted"}
    error = {"object": "error", "message": {"detail": [detail]}, "code": None}
    return Refused(f"{place}: Extra inputs are not permitted", json_reply(error, 422))


def _check_mistral(request: Json, turns: list[Turn]) -> None:
    """Refuse unknown members and long ids: crush#1590, litellm#30835, eca#231, ironclaw#1241."""
    if "max_completion_tokens" in request:
        raise _refuse_extra("body", "max_completion_tokens")
    for place, message in enumerate(request["messages"]):
        role = message["role"]
        for name in message.keys() - MISTRAL_MEMBERS[role]:
            raise _refuse_extra("body", "messages", place, role, name)
    for identity in (one for turn in turns for one in turn.ids):
        if not MISTRAL_ID.fullmatch(identity):
            text = f"Tool call id was {identity} but must be a-z, A-Z, 0-9, with a length of 9."
            error = {"object": "error", "message": text, "type": "invalid_function_call"}
            raise Refused(text, json_reply({**error, "param": None, "code": "3280"}, 400))


def _give_parts(step: int) -> Json:
    thought = [{"type": "text", "text": think(step)}]
    return {"content": [{"type": "thinking", "thinking": thought}]}


def _write_whole(calls: list[Json]) -> list[Json]:
    """Write all calls at once, without index and type."""
    bare = [{name: call[name] for name in ("id", "function")} for call in calls]
    return [{"tool_calls": bare}] if bare else []


def _write_with_empty_ids(calls: list[Json]) -> list[Json]:
    return [{"tool_calls": [{"id": "", **delta["tool_calls"][0]}]} for delta in write_calls(calls)]


MISTRAL: Final = Habit(
    "mistral",
    lambda step, number: digest("mistral", step, number, length=9),
    give=_give_parts,
    check=_check_mistral,
    write_given=lambda given: [given],
    write_calls=_write_whole,
)
QWEN: Final = Habit(
    "qwen",
    lambda step, number: f"call_{digest('qwen', step, number)}",
    give=lambda step: {"reasoning_content": think(step)},
    write_calls=_write_with_empty_ids,
)
VLLM: Final = Habit(
    "vllm",
    lambda step, number: f"chatcmpl-tool-{digest('vllm', step, number, length=32)}",
    give=lambda step: {"reasoning": think(step)},
)
PLAIN: Final = Habit("plain", lambda step, number: f"call_{step}{number}")
FORGETFUL: Final = (
    serve(MISTRAL, provider='history = "mistral"'),
    serve(QWEN),
    serve(VLLM),
    serve(PLAIN),
)
