"""Responses requests for a chat upstream: every field carried, left out or refused."""

from __future__ import annotations

from typing import Any

from openai.types.responses.response_create_params import ResponseCreateParamsBase

from gateway.dialects.records import Target
from gateway.dialects.responses_over_chat.request import CARRIED, DROPPED, PASSED, REFUSED, SHARED
from tests.dialects.chat.kit import Json
from tests.dialects.responses_over_chat.kit import PATCH, TOOL, message, text, user, write
from tests.support.rows import each_row

PLAIN: Json = {"model": "theirs", "messages": [user("hi")]}


def test_the_least_request() -> None:
    assert write() == PLAIN


def test_every_field_of_the_schema_is_in_a_table() -> None:
    known = CARRIED | DROPPED | PASSED | REFUSED
    assert set(ResponseCreateParamsBase.__annotations__) <= known
    assert len(known) == len(CARRIED) + len(DROPPED) + len(PASSED) + len(REFUSED)


def test_codex_is_understood() -> None:
    """The body is a recorded one, cut short."""
    hosted = ("web_search", "tool_search", "image_generation", "local_shell")
    written = write(
        instructions="You are Codex.",
        input=[
            message("developer", [text("<permissions>")]),
            message("user", [text("<environment_context>")]),
            message("user", [text("Say hi.")]),
        ],
        tools=[TOOL, PATCH, *({"type": kind} for kind in hosted)],
        tool_choice="auto",
        parallel_tool_calls=False,
        reasoning={"effort": "medium", "summary": "auto"},
        store=False,
        stream=True,
        include=["reasoning.encrypted_content"],
        prompt_cache_key="0199",
        text={"verbosity": "low", "format": None},
        service_tier="priority",
        client_metadata={"x-codex-installation-id": "1"},
    )
    names = [tool["function"]["name"] for tool in written.pop("tools")]
    assert names == ["f", "patch"]
    assert written == {
        "model": "theirs",
        "messages": [
            {"role": "system", "content": "You are Codex.\n\n<permissions>"},
            user("<environment_context>"),
            user("Say hi."),
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning_effort": "medium",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_fields_that_few_chat_providers_take_go_to_those_alone() -> None:
    fields = {
        "metadata": {"a": "b"},
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "service_tier": "default",
        "user": "u",
    }
    asked = {**fields, "text": {"verbosity": "low"}}
    assert write(**asked) == PLAIN
    all_of_them = frozenset({*SHARED, "verbosity"})
    taken = write(Target("theirs", takes=all_of_them), **asked)
    assert taken == {**PLAIN, **fields, "verbosity": "low"}
    assert write(Target("theirs", takes=frozenset({"user"})), **asked) == {**PLAIN, "user": "u"}


@each_row("name", sorted(REFUSED))
@each_row("value", [None, False, 0, {}])
def test_a_field_at_its_default_is_no_error(name: str, value: Any) -> None:
    assert write(**{name: value}) == PLAIN


@each_row("name", sorted(DROPPED))
def test_advice_is_left_out(name: str) -> None:
    assert write(**{name: "anything"}) == PLAIN
