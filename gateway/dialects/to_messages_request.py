"""A chat request as a messages request (wire.md §5.1). No I/O.

Every field of the chat schema is in one of the tables below, so that none is lost silently:
carried over, harmless to leave out, or refused unless it asks for what happens anyway.
"""

from __future__ import annotations

import re
from typing import Any, Final

from gateway.dialects.base import CompletionRequest, Target
from gateway.dialects.checks import Json, wrong_type
from gateway.dialects.to_messages_checks import (
    expect_object,
    unsupported_field,
    unsupported_value,
)
from gateway.dialects.to_messages_reasoning import to_thinking
from gateway.dialects.to_messages_tools import to_tools
from gateway.dialects.to_messages_turns import to_conversation

CARRIED: Final = frozenset(
    {
        "function_call",
        "functions",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "model",
        "parallel_tool_calls",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "service_tier",
        "stop",
        "stream",
        "temperature",
        "tool_choice",
        "tools",
        "top_p",
        "user",
    }
)
HARMLESS: Final = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "stream_options",
        "verbosity",
    }
)
"""Left out: they change how a reply is stored, cached, framed or worded, not what it is about."""
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
    "seed": (),
    "store": (False,),
    "top_logprobs": (0,),
    "web_search_options": (),
}
"""Without a counterpart, each with the values that ask for nothing; null always does."""
PASSED: Final = frozenset({"cache_control", "thinking", "top_k"})
"""The upstream's own words, unknown to chat, passed as they are. What else it knows could add to
the bill unseen (`speed`, `inference_geo`, `container`) or contradict what is made here."""

MAX_TEMPERATURE: Final = 1
SERVICE_TIERS: Final = {
    "auto": "auto",
    "priority": "auto",
    "fast": "auto",
    "default": "standard_only",
}

_CONTACT = re.compile(r"[^@\s]+@[^@\s]+|\+[\d\s().-]{7,}")
"""An e-mail address or a telephone number: the upstream wants no such thing as a user's id."""


def to_messages_request(request: CompletionRequest, target: Target) -> Json:
    """The upstream's body. Raises BadRequest, naming the field, for what cannot be carried over."""
    body = {name: value for name, value in request.body.items() if value is not None}
    _refuse_uncarried(body)
    max_tokens = target.max_output_tokens if request.max_tokens is None else request.max_tokens
    conversation = to_conversation(body["messages"])
    made: Json = {"model": target.upstream_model, "max_tokens": max_tokens}
    if conversation.system:
        made["system"] = conversation.system
    made["messages"] = conversation.turns
    made |= to_tools(body, conversation.called)
    made |= _to_sampling(body)
    made |= _to_output(body, max_tokens, target)
    made |= _to_labels(body)
    made |= {name: body[name] for name in PASSED if name in body}
    if request.stream:
        made["stream"] = True
    return made


def _refuse_uncarried(body: Json) -> None:
    for name, value in body.items():
        if name in REFUSED:
            if value not in REFUSED[name]:
                raise unsupported_field(name)
        elif name not in CARRIED and name not in HARMLESS and name not in PASSED:
            raise unsupported_field(name)


def _to_sampling(body: Json) -> Json:
    made: Json = {}
    if (temperature := body.get("temperature")) is not None:
        if temperature > MAX_TEMPERATURE:
            raise unsupported_value(
                "temperature", f"This model's provider takes 0 to {MAX_TEMPERATURE}."
            )
        made["temperature"] = temperature
    if (top_p := body.get("top_p")) is not None:
        made["top_p"] = top_p
    stop = body.get("stop", [])
    sequences = [stop] if isinstance(stop, str) else stop
    if not all(sequence.strip() for sequence in sequences):
        raise unsupported_value(
            "stop", "This model's provider takes no sequence of white space alone."
        )
    if sequences:
        made["stop_sequences"] = sequences
    return made


def _to_output(body: Json, max_tokens: int, target: Target) -> Json:
    """The fields `thinking` and `output_config`."""
    if "thinking" in body and "reasoning_effort" in body:
        raise unsupported_value("thinking", "It contradicts `reasoning_effort`: leave one out.")
    thinking, effort = to_thinking(body.get("reasoning_effort"), max_tokens, target)
    schema = _read_format(body.get("response_format"))
    made: Json = {} if thinking is None else {"thinking": thinking}
    config: Json = {} if effort is None else {"effort": effort}
    if schema is not None:
        config["format"] = {"type": "json_schema", "schema": schema}
    return {**made, "output_config": config} if config else made


def _read_format(form: Any) -> Json | None:
    """The schema that the reply is to keep to, or None."""
    if form is None:
        return None
    name = "response_format"
    match expect_object(name, form).get("type"):
        case "text":
            return None
        case "json_schema":
            held = expect_object(f"{name}.json_schema", form.get("json_schema"))
            return expect_object(f"{name}.json_schema.schema", held.get("schema"))
        case _:
            raise unsupported_value(
                f"{name}.type", "This model's provider takes text or json_schema."
            )


def _to_labels(body: Json) -> Json:
    made: Json = {}
    name = "safety_identifier" if "safety_identifier" in body else "user"
    if (user := body.get(name)) is not None:
        if not isinstance(user, str):
            raise wrong_type(name, "a string", user)
        if user and not _CONTACT.fullmatch(user):
            made["metadata"] = {"user_id": user}
    if (tier := body.get("service_tier")) is not None:
        if not isinstance(tier, str) or tier not in SERVICE_TIERS:
            raise unsupported_value(
                "service_tier", f"This model's provider takes {', '.join(SERVICE_TIERS)}."
            )
        made["service_tier"] = SERVICE_TIERS[tier]
    return made
