"""A chat request as a Responses request.

Every field of the chat schema is in one of the tables below, so that none is lost silently.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.chat.parts import open_fields
from gateway.dialects.chat.state import open_history
from gateway.dialects.chat_over_responses.conversation import (
    lift_instructions,
    translate_conversation,
)
from gateway.dialects.chat_over_responses.tools import translate_tools
from gateway.dialects.records import CompletionRequest, Json, Target
from gateway.dialects.wire.fields import Field

SHARED: Final = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "temperature",
        "top_p",
        "user",
    }
)
"""Fields that both dialects have."""
CARRIED: Final = SHARED | {
    "function_call",
    "functions",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "model",
    "parallel_tool_calls",
    "reasoning_effort",
    "response_format",
    "stream",
    "tool_choice",
    "tools",
    "verbosity",
}
DROPPED: Final = frozenset({"seed", "stream_options"})
"""Left out: they change how a reply is drawn or framed, not what it is about."""
REFUSED: Final[dict[str, tuple[Any, ...]]] = {
    "audio": (),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "modalities": (["text"],),
    "moderation": (),
    "n": (1,),
    "prediction": (),
    "presence_penalty": (0,),
    "stop": ([],),
    "store": (False,),
    "top_logprobs": (0,),
    "web_search_options": (),
}
"""Fields without a counterpart, each with the values that ask for nothing, as null always does. A web
search has one, which is carried over where the model has a price for it."""
PASSED: Final = frozenset({"reasoning", "truncation"})
"""The upstream's own fields, unknown to chat, passed as they are."""
_KNOWN: Final = CARRIED | DROPPED | PASSED
_COPIED: Final = SHARED | PASSED - {"reasoning"}

DEFAULT_EFFORT: Final = "medium"
MIN_OUTPUT_TOKENS: Final = 16
"""Tokens of the least limit that OpenAI takes."""


def translate_request(request: CompletionRequest, target: Target) -> Json:
    """Write the Responses request. Raises BadRequest, naming the field that cannot be carried over."""
    given = {name: value for name, value in request.body.items() if value is not None}
    body = Field({**given, "messages": open_history(given["messages"], target.provider_tag)})
    body.check_fields(_KNOWN | open_fields(target), REFUSED)
    text = _translate_text(body)
    items = translate_conversation(body["messages"])
    made: Json = {"model": request.model}
    if target.leading_system or not _needs_the_word(text):
        instructions, items = lift_instructions(items, everywhere=target.leading_system)
        if instructions:
            made["instructions"] = instructions
    made["input"] = items
    made |= translate_tools(body)
    if request.max_tokens is not None:
        made["max_output_tokens"] = max(request.max_tokens, MIN_OUTPUT_TOKENS)
    if reasoning := _translate_reasoning(body, target):
        made["reasoning"] = reasoning
    if text:
        made["text"] = text
    made |= {name: value for name, value in body.value.items() if name in _COPIED}
    if request.stream:
        made["stream"] = True
    return made


def _translate_text(body: Field) -> Json:
    """Write the form that the reply is to have, and how long it is to be."""
    made: Json = {}
    form = body["response_format"]
    if form.value is not None:
        made["format"] = _translate_format(form)
    if body["verbosity"].value is not None:
        made["verbosity"] = body["verbosity"].read_string()
    return made


def _translate_format(form: Field) -> Json:
    match form["type"].value:
        case "text" | "json_object" as kind:
            return {"type": kind}
        case "json_schema":
            held = form["json_schema"]
            made: Json = {"type": "json_schema", "name": held["name"].read_text()}
            for name in ("description", "strict"):
                if (value := held.get(name)) is not None:
                    made[name] = value
            return {**made, "schema": held["schema"].read_object()}
        case _:
            raise form["type"].refuse(
                "This model's provider takes text, json_object or json_schema."
            )


def _needs_the_word(text: Json) -> bool:
    """Return whether the upstream wants the word JSON among the items, where alone it looks for it."""
    return "format" in text and text["format"]["type"] == "json_object"


def _translate_reasoning(body: Field, target: Target) -> Json:
    """Write `reasoning`: the upstream's own field, with the effort that chat has beside it."""
    own: Json = {} if body["reasoning"].value is None else body["reasoning"].read_object()
    effort = body["reasoning_effort"]
    if effort.value is None:
        return own
    if own.get("effort") is not None:
        raise body["reasoning"].refuse("It contradicts `reasoning_effort`: leave one out.")
    if target.reasoning != "none":
        return {**own, "effort": effort.read_string()}
    if effort.value not in ("none", DEFAULT_EFFORT):
        raise effort.refuse("This model does not reason.")
    return own
