"""A coding agent's whole request over all kinds of provider, and efforts across dialects."""

from __future__ import annotations

import json
from typing import Any

from tests.support.chat import say
from tests.support.config import UPSTREAM_NAME
from tests.support.messages import ask, call, check_reply, make_message, read_stream, text
from tests.support.replies import completion, json_reply, sse_reply, stream_chunks
from tests.support.stage import Stage

Json = dict[str, Any]
MARKED = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
DEVICE = {"device_id": "d" * 64, "session_id": "7c9e6679-7425-40de-944b-e07fc1f90ae7"}
SCHEMA: Json = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
    "additionalProperties": False,
}
BETAS = "claude-code-20250219,interleaved-thinking-2025-05-14,effort-2025-11-24"
BILLING = "x-anthropic-billing-header: cc_version=2.1.329; cch=0a1b2;"
REMINDER = "<system-reminder>Today.</system-reminder>"


def result(identity: str, content: Any, **extra: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": identity, "content": content} | extra


def agent_request(model: str) -> Json:
    """Make a request of a coding agent in the middle of its work."""
    ls, false = (
        call(f"toolu_{number}", "Bash", {"command": command})
        for number, command in ((1, "ls"), (2, "false"))
    )
    thought = {"type": "thinking", "thinking": "I list them.", "signature": "c2ln"}
    asked = [text(REMINDER), text("List the files.") | MARKED]
    called = [thought, text("I look."), ls | {"caller": {"type": "direct"}}, false | MARKED]
    failed = result("toolu_2", "exit 1", is_error=True, **MARKED)
    told = [result("toolu_1", [text("a.py")]), failed, text("And now?") | MARKED]
    bash = {"name": "Bash", "description": "Runs.", "input_schema": SCHEMA, **MARKED}
    late = {"name": "Late", "input_schema": SCHEMA, "defer_loading": True, "type": "custom"}
    return {
        "model": model,
        "max_tokens": 32_000,
        "stream": True,
        "system": [text(BILLING), text("You are an agent.") | MARKED, text("Be brief.") | MARKED],
        "messages": [
            {"role": "user", "content": asked},
            {"role": "assistant", "content": called},
            {"role": "user", "content": told},
        ],
        "tools": [bash | {"eager_input_streaming": True}, late],
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "metadata": {"user_id": json.dumps(DEVICE)},
        "diagnostics": {"previous_message_id": None},
        "service_tier": "auto",
        "speed": "standard",
    }


def function(name: str, **fields: Any) -> Json:
    return {"type": "function", "function": {"name": name} | fields}


CALLS = [
    {"id": f"toolu_{number}"} | function("Bash", arguments={"command": command})
    for number, command in ((1, "ls"), (2, "false"))
]
AGENT_AS_CHAT: Json = {
    "model": UPSTREAM_NAME,
    "max_tokens": 32_000,
    "stream": True,
    "stream_options": {"include_usage": True},
    "messages": [
        {"role": "system", "content": "You are an agent.\n\nBe brief."},
        {"role": "user", "content": [text(REMINDER), text("List the files.")]},
        {"role": "assistant", "content": "I look.", "tool_calls": CALLS},
        {"role": "tool", "tool_call_id": "toolu_1", "content": "a.py"},
        {"role": "tool", "tool_call_id": "toolu_2", "content": "Error: exit 1"},
        {"role": "user", "content": "And now?"},
    ],
    "tools": [
        function("Bash", description="Runs.", parameters=SCHEMA),
        function("Late", parameters=SCHEMA),
    ],
    "tool_choice": "auto",
}


def unpack_arguments(body: Json) -> Json:
    """Parse the arguments of calls, as their spacing does not matter."""
    for message in body["messages"]:
        for one in message.get("tool_calls", ()):
            one["function"]["arguments"] = json.loads(one["function"]["arguments"])
    return body


async def test_coding_agents_request_works_over_a_chat_provider(stage: Stage) -> None:
    stage.alpha.play(sse_reply(stream_chunks(["Done", "."])))
    model = stage.fresh("plain")
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": BETAS}
    path = "/v1/messages?beta=true"
    reply = await stage.gateway.post(path, stage.key, agent_request(model), headers=headers)
    assert (reply.status, reply.body) == (200, reply.body)
    read_stream(reply.body, model)
    assert unpack_arguments(stage.alpha.last.json) == AGENT_AS_CHAT


async def test_coding_agents_request_passes_whole_to_a_messages_provider(stage: Stage) -> None:
    stage.alpha.play(json_reply(make_message()))
    body = agent_request(stage.fresh("messages")) | {"stream": False}
    assert (await stage.message(body, headers={"anthropic-beta": BETAS})).status == 200
    assert stage.alpha.last.json == body | {"model": UPSTREAM_NAME}
    assert stage.alpha.last.headers["anthropic-beta"] == BETAS


async def test_effort_and_limit_go_by_the_models_settings(stage: Stage) -> None:
    """A model that takes a reasoning effort, at a provider with the newer name of the limit."""
    stage.alpha.always(json_reply(completion()))
    model = stage.fresh("effort")
    asked: list[tuple[Json, str | None]] = [
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, "high"),
        ({"thinking": {"type": "adaptive"}}, "medium"),
        ({"thinking": {"type": "enabled", "budget_tokens": 5000}}, "high"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "low"),
        ({"thinking": {"type": "disabled"}}, None),
    ]
    for fields, effort in asked:
        check_reply(await stage.message(ask(model, **fields)), model)
        sent = stage.alpha.last.json
        assert (sent.get("reasoning_effort"), sent["max_completion_tokens"]) == (effort, 100)
        assert "max_tokens" not in sent


async def test_effort_becomes_thinking_at_a_messages_provider(stage: Stage) -> None:
    stage.alpha.always(json_reply(make_message()))
    assert (await stage.chat(say(stage.fresh("messages"), reasoning_effort="high"))).status == 200
    sent = stage.alpha.last.json
    assert (sent["thinking"], sent["output_config"]) == ({"type": "adaptive"}, {"effort": "high"})
    assert (await stage.chat(say(stage.fresh("budget"), reasoning_effort="low"))).status == 200
    assert stage.alpha.last.json["thinking"] == {"type": "enabled", "budget_tokens": 1024}
