"""A Responses request as a chat request.

Every field of the Responses schema is in one of the tables below; a field that is in none is refused
by name, so that nobody loses a feature silently.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.wire.fields import Field
from gateway.dialects.wire.records import CompletionRequest, Json, Taken, Target
from gateway.extras.responses.compaction import asks_summary
from gateway.extras.responses.over_chat_conversation import translate_conversation
from gateway.extras.responses.over_chat_tools import translate_tools

SHARED: Final[frozenset[Taken]] = frozenset(
    {"metadata", "prompt_cache_key", "safety_identifier", "service_tier", "user"}
)
"""Fields that both dialects have and few chat upstreams take."""
PASSED: Final = frozenset({"temperature", "top_p"})
CARRIED: Final = SHARED | {
    *("input", "instructions", "max_output_tokens", "model", "parallel_tool_calls"),
    *("reasoning", "stream", "text", "tool_choice", "tools"),
}
DROPPED: Final = frozenset(
    {
        *("access_programs", "background_options", "client_metadata", "context_management"),
        *("image", "include", "max_tool_calls", "prompt_cache_options"),
        *("prompt_cache_retention", "stream_options", "truncation"),
    }
)
"""Advice to the upstream, accepted and left out: coding agents and SDKs send it unasked."""
REFUSED: Final = frozenset(
    {
        *("background", "conversation", "moderation", "previous_response_id", "prompt"),
        *("store", "top_logprobs"),
    }
)
"""Fields without a counterpart. Null, false, 0 and empty values have no effect."""
NAMES: Final = {
    "max_completion_tokens": ("max_output_tokens",),
    "max_tokens": ("max_output_tokens",),
    "messages": ("input",),
    "reasoning_effort": ("reasoning.effort",),
    "response_format": ("text.format",),
    "tools": ("tools",),
    "web_search_options": ("tools",),
}
"""This dialect's names of chat's fields, if they differ, for refusals of chat's fields."""
_KNOWN: Final = CARRIED | DROPPED | PASSED
_FORMAT_KEYS: Final = ("name", "description", "schema", "strict")


def translate_request(request: CompletionRequest, target: Target) -> Json:
    """Write the chat request. Raises BadRequest, naming the field that cannot be carried over."""
    given, body = request.body, Field(request.body)
    for name, value in given.items():
        if name not in _KNOWN and value:
            raise body[name].refuse_field()
    messages = translate_conversation(body, target)
    chat: Json = {"model": request.model, "messages": messages}
    if request.max_tokens is not None:
        chat[target.max_tokens_field] = request.max_tokens
    chat |= {name: given[name] for name in PASSED if given.get(name) is not None}
    chat |= {name: given[name] for name in SHARED & target.takes if given.get(name) is not None}
    if not asks_summary(given):  # a summary is plain text without calls
        chat |= translate_tools(body, target)
        chat |= _translate_text(body["text"], target)
    if target.reasoning == "effort":
        chat |= _translate_reasoning(body["reasoning"])
    if request.stream:
        chat["stream"] = True
    return chat


def _translate_text(text: Field, target: Target) -> Json:
    """Write the form of the reply, and its verbosity if the upstream takes that field."""
    if text.value is None:
        return {}
    verbosity = text.get("verbosity") if "verbosity" in target.takes else None
    said = {} if verbosity is None else {"verbosity": verbosity}
    return said | _translate_format(text["format"])


def _translate_format(form: Field) -> Json:
    if form.value is None:
        return {}
    match form.get("type"):
        case "text":
            return {}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
        case "json_schema":
            form["name"].read_text()
            form["schema"].read_object()
            given = {key: form.get(key) for key in _FORMAT_KEYS if form.get(key) is not None}
            return {"response_format": {"type": "json_schema", "json_schema": given}}
        case _:
            raise form["type"].refuse("It must be 'text', 'json_object' or 'json_schema'.")


def _translate_reasoning(reasoning: Field) -> Json:
    """Write the effort. The upstream decides whether and how it shows its reasoning."""
    effort = None if reasoning.value is None else reasoning["effort"]
    if effort is None or effort.value is None:
        return {}
    return {"reasoning_effort": effort.read_text()}
