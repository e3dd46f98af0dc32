"""The scripted vendors themselves: each takes back what it gave, and refuses what is lost or foreign."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, cast

import pytest

from tests.agents.loop import (
    ALL_TURNS,
    QUESTIONS,
    Agent,
    MessagesAgent,
    ResponsesAgent,
    WholeChatAgent,
)
from tests.agents.vendors import VENDORS
from tests.agents.vendors.base import Refused
from tests.support.process import GatewayProcess
from tests.support.replies import Json
from tests.support.rows import each_row

NATIVE: Final[dict[str, type[Agent]]] = {
    "chat": WholeChatAgent,
    "messages": MessagesAgent,
    "responses": ResponsesAgent,
}
NOBODY: Final = cast("GatewayProcess", None)
ENCRYPTED: Final = {"store": False, "include": ["reasoning.encrypted_content"]}


def begin(name: str) -> Agent:
    agent = NATIVE[VENDORS[name].dialect](NOBODY, "", stream=False)
    agent.ask(QUESTIONS[0])
    return agent


def take_turn(name: str, agent: Agent) -> int:
    """Take a turn without a gateway; return how many turns the vendor found whole."""
    vendor = VENDORS[name]
    body = agent.write("model", vendor.thinking)
    answer = vendor.answer(body | (ENCRYPTED if vendor.dialect == "responses" else {}))
    (reply,) = answer.script
    assert isinstance(reply, bytes)
    value = json.loads(reply.partition(b"\r\n\r\n")[2])
    whole = value["choices"][0]["message"] if "choices" in value else None
    said = agent.keep(whole or value.get("content") or value["output"])
    if said.calls:
        agent.answer(said)
    else:
        agent.ask(QUESTIONS[1])
    return answer.recalled


@each_row("name", VENDORS)
def test_it_takes_back_what_it_gave(name: str) -> None:
    agent = begin(name)
    assert [take_turn(name, agent) for _ in range(ALL_TURNS)] == [0, 1, 2, 2]


GONE: Final = object()


def drop(*path: Any) -> Callable[[list[Json]], None]:
    return put(GONE, *path)


def put(value: Any, *path: Any) -> Callable[[list[Json]], None]:
    def damage(history: list[Json]) -> None:
        place: Any = history
        for part in path[:-1]:
            place = place[part]
        if value is GONE:
            del place[path[-1]]
        else:
            place[path[-1]] = value

    return damage


def lengthen(history: list[Json]) -> None:
    """Give a call and its result an id of 41 characters."""
    put("x" * 41, *CALL, "id")(history)
    put("x" * 41, 2, "tool_call_id")(history)


CALL: Final = (1, "tool_calls", 0)
SIGNATURE: Final = (*CALL, "extra_content", "google", "thought_signature")


@each_row(
    ("name", "damage", "words"),
    [
        ("openai-responses", drop(1, "encrypted_content"), "not found."),
        ("openai-responses", put("foreign", 1, "encrypted_content"), "could not be verified"),
        ("openai-responses", put("fc_foreign", 1, "id"), "Invalid 'input[1].id'"),
        ("openai-responses", drop(1), "without its required 'reasoning' item: 'rs_"),
        ("openai-responses", put("x" * 65, 3, "call_id"), "string too long"),
        ("openai-responses", drop(5), "No tool output found for function call"),
        ("openai-responses", drop(3), "No tool call found for function call output"),
        ("openai-chat", lengthen, "string too long"),
        ("openai-chat", put("thought", 1, "reasoning_content"), "messages[1].reasoning_content"),
        ("openai-chat", drop(3), "did not have response messages"),
        ("claude-budget", drop(1, "content", 0), "Expected `thinking` or `redacted_thinking`"),
        ("claude-budget", put("x", 1, "content", 0, "signature"), "Invalid `signature`"),
        ("claude-adaptive", put("x", 1, "content", 0, "signature"), "Invalid `signature`"),
        ("claude-redacted", put("x", 1, "content", 0, "data"), "Invalid `data`"),
        ("claude-adaptive", put("a.b:0", 1, "content", 2, "id"), "String should match pattern"),
        ("claude-adaptive", drop(2, "content", 0), "without `tool_result` blocks"),
        ("gemini", drop(*CALL, "extra_content"), "missing a thought_signature"),
        ("gemini", put("foreign", *SIGNATURE), "Corrupted thought signature"),
        ("deepseek", drop(1, "reasoning_content"), "must be passed back to the API"),
        ("kimi", put("", 1, "reasoning_content"), "must be passed back to the API"),
        ("openrouter", drop(1, "reasoning_details", 0), "Invalid `signature`"),
        ("mistral", put("thought", 1, "reasoning_content"), "Extra inputs are not permitted"),
        ("plain", drop(1), "must be a response to a preceeding message"),
    ],
)
def test_it_refuses(name: str, damage: Callable[[list[Json]], None], words: str) -> None:
    agent = begin(name)
    take_turn(name, agent)
    damage(agent.history)
    with pytest.raises(Refused) as raised:
        take_turn(name, agent)
    assert words in str(raised.value)


@each_row(
    ("name", "extra", "words"),
    [
        ("openai-responses", {"max_output_tokens": 15}, "below minimum"),
        ("openai-responses", {"temperature": 0.5}, "'temperature' is not supported"),
        ("openai-chat", {"max_tokens": 100}, "'max_tokens' is not supported"),
        ("openai-chat", {"reasoning_effort": "low"}, "please use /v1/responses"),
        ("openai-chat", {"temperature": 0.5}, "does not support 0.5"),
        ("openai-chat", {"top_k": 5}, "Unknown parameter: 'top_k'"),
        ("claude-adaptive", {"tool_choice": {"type": "any"}}, "forces tool use"),
        ("claude-budget", {"thinking": {"type": "adaptive"}}, "adaptive thinking is not"),
        ("claude-4-8", {"temperature": 1}, "`temperature` is deprecated"),
        ("claude-4-8", {"thinking": {"type": "enabled"}}, "thinking.type.enabled"),
        ("gemini", {"store": False}, "unknown names"),
        ("mistral", {"max_completion_tokens": 9}, "Extra inputs are not permitted"),
    ],
)
def test_it_refuses_a_parameter(name: str, extra: Json, words: str) -> None:
    body = begin(name).write("model", VENDORS[name].thinking)
    with pytest.raises(Refused) as raised:
        VENDORS[name].answer(body | extra)
    assert words in str(raised.value)
