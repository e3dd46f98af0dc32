"""A field that cannot be carried over is refused by name, before provider and ledger."""

from __future__ import annotations

from typing import Any

from tests.support.chat import check_error, check_messages_error, say
from tests.support.messages import ask, check_reply, frames, make_events
from tests.support.replies import completion, json_reply, sse_reply
from tests.support.rows import each_row
from tests.support.stage import Stage

Json = dict[str, Any]


def user(*blocks: Json) -> Json:
    return {"messages": [{"role": "user", "content": list(blocks)}]}


FILE = {"type": "file", "file_id": "file_1"}
TOOL: Json = {"name": "t", "input_schema": {"type": "object"}}
REFUSED_OVER_CHAT: dict[str, tuple[Json, str]] = {
    "top_k": ({"top_k": 5}, "top_k"),
    "container": ({"container": "c_1"}, "container"),
    "mcp_servers": ({"mcp_servers": [{"type": "url", "url": "https://x.test"}]}, "mcp_servers"),
    "unknown field": ({"brand_new": {"a": 1}}, "brand_new"),
    "server tool": (
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        "tools.0.type",
    ),
    "code execution": (
        {"tools": [TOOL, {"type": "code_execution_20250825", "name": "code_execution"}]},
        "tools.1.type",
    ),
    "computer": (
        {"tools": [{"type": "computer_20250124", "name": "computer", "display_width_px": 1}]},
        "tools.0.type",
    ),
    "long tool name": ({"tools": [TOOL | {"name": "t" * 65}]}, "tools.0.name"),
    "unknown tool field": ({"tools": [TOOL | {"brand_new": 1}]}, "tools.0.brand_new"),
    "file image": (user({"type": "image", "source": FILE}), "messages.0.content.0.source"),
    "file document": (user({"type": "document", "source": FILE}), "messages.0.content.0.source"),
    "search result": (
        user({"type": "search_result", "source": "x", "title": "y", "content": []}),
        "messages.0.content.0",
    ),
    "upload": (user({"type": "container_upload", "file_id": "f"}), "messages.0.content.0"),
    "server tool use": (
        {
            "messages": [
                {"role": "user", "content": "x"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
                    ],
                },
            ]
        },
        "messages.1.content.0",
    ),
    "five stops": ({"stop_sequences": list("abcde")}, "stop_sequences"),
    "warming a cache": ({"max_tokens": 0}, "max_tokens"),
    "fast": ({"speed": "fast"}, "speed"),
    "format": ({"output_config": {"format": {"type": "grammar"}}}, "output_config.format"),
    "output field": ({"output_config": {"brand_new": 1}}, "output_config.brand_new"),
    "thinking field": ({"thinking": {"type": "adaptive", "x": 1}}, "thinking.x"),
}


@each_row("name", REFUSED_OVER_CHAT)
async def test_what_a_chat_provider_cannot_take_is_refused_by_name(stage: Stage, name: str) -> None:
    """Nothing reaches the provider or the ledger."""
    fields, where = REFUSED_OVER_CHAT[name]
    for stream in (False, True):
        body = ask("plain/0", stream=stream) | fields
        reply = await stage.message(body)
        check_messages_error(reply, 400, "invalid_request_error")
        assert where in reply.json["error"]["message"]
        assert stage.books.request(reply.request_id) is None
    assert stage.alpha.exchanges == []


REFUSED_OVER_MESSAGES: dict[str, tuple[Json, str]] = {
    "n": ({"n": 2}, "n"),
    "logprobs": ({"logprobs": True}, "logprobs"),
    "top_logprobs": ({"logprobs": True, "top_logprobs": 3}, "logprobs"),
    "logit_bias": ({"logit_bias": {"1": 5}}, "logit_bias"),
    "frequency_penalty": ({"frequency_penalty": 0.5}, "frequency_penalty"),
    "presence_penalty": ({"presence_penalty": -0.5}, "presence_penalty"),
    "store": ({"store": True}, "store"),
    "audio": ({"modalities": ["text", "audio"]}, "modalities"),
    "prediction": ({"prediction": {"type": "content", "content": "x"}}, "prediction"),
    "web search": ({"web_search_options": {}}, "web_search_options"),
    "blank stop": ({"stop": [" \n"]}, "stop"),
    "grammar": ({"response_format": {"type": "grammar"}}, "response_format.type"),
    "custom tool": (
        {"tools": [{"type": "custom", "custom": {"name": "x"}}]},
        "tools[0].type",
    ),
    "http image": (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "http://x.test/a.png"}}],
                }
            ]
        },
        "messages[0].content[0].image_url.url",
    ),
    "file id": (
        {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]},
        "messages[0].content[0].file.file_id",
    ),
    "input audio": (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
                    ],
                }
            ]
        },
        "messages[0].content[0]",
    ),
    "service tier": ({"service_tier": "flex"}, "service_tier"),
    "unknown field": ({"brand_new": 1}, "brand_new"),
}


@each_row("name", REFUSED_OVER_MESSAGES)
async def test_what_a_messages_provider_cannot_take_is_refused_by_name(
    stage: Stage, name: str
) -> None:
    fields, where = REFUSED_OVER_MESSAGES[name]
    for stream in (False, True):
        reply = await stage.chat(say("messages/0", stream=stream) | fields)
        assert reply.status == 400
        check_error(reply, 400, reply.json["error"]["code"], param=where)
        assert where in reply.json["error"]["message"]
        assert stage.books.request(reply.request_id) is None
    assert stage.alpha.exchanges == []


DEFAULTS_OVER_MESSAGES: Json = {
    "n": 1,
    "logprobs": False,
    "top_logprobs": 0,
    "logit_bias": {},
    "frequency_penalty": 0,
    "presence_penalty": 0.0,
    "seed": None,
    "store": False,
    "modalities": ["text"],
    "audio": None,
    "prediction": None,
    "response_format": {"type": "text"},
    "stop": None,
    "tools": [],
    "tool_choice": "auto",
    "service_tier": "auto",
    "metadata": {"a": "b"},
    "verbosity": "low",
    "prompt_cache_key": "k",
    "stream_options": {"include_usage": True, "include_obfuscation": False},
    "stream": True,
    "user": None,
}


async def test_fields_at_their_default_are_never_an_error(stage: Stage) -> None:
    stage.alpha.play(sse_reply(frames(make_events()), done=False))
    reply = await stage.chat(say(stage.fresh("messages")) | DEFAULTS_OVER_MESSAGES)
    assert (reply.status, reply.body) == (200, reply.body)
    assert set(stage.alpha.last.json) <= {
        *("model", "max_tokens", "messages", "stream", "service_tier", "cache_control")
    }
    stage.alpha.play(json_reply(completion()))
    nulls: Json = dict.fromkeys(
        ("top_k", "container", "mcp_servers", "system", "tools", "tool_choice", "thinking")
    )
    model = stage.fresh("plain")
    check_reply(await stage.message(ask(model, **nulls, stop_sequences=[])), model)
    assert set(stage.alpha.last.json) == {"model", "messages", "max_tokens"}
