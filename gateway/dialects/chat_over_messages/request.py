"""A chat request as a messages request.

Every field of the chat schema is in one of the tables below, so that none is lost silently.
"""

from __future__ import annotations

import re
from typing import Any, Final

from gateway.dialects.chat.parts import open_fields
from gateway.dialects.chat.state import open_history
from gateway.dialects.chat_over_messages.conversation import translate_conversation
from gateway.dialects.chat_over_messages.schema import adapt_schema
from gateway.dialects.chat_over_messages.tools import is_forced, translate_tools
from gateway.dialects.records import CompletionRequest, Json, Target
from gateway.dialects.wire.fields import Field

CARRIED: Final = frozenset(
    {
        "function_call",
        "functions",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "model",
        "parallel_tool_calls",
        "prompt_cache_key",
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
DROPPED: Final = frozenset(
    {
        "metadata",
        "prompt_cache_options",
        "prompt_cache_retention",
        "seed",
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
    "store": (False,),
    "top_logprobs": (0,),
    "web_search_options": (),
}
"""Fields without a counterpart, each with the values that ask for nothing, as null always does. A web
search has one, which is carried over where the model has a price for it."""
PASSED: Final = frozenset({"cache_control", "thinking", "top_k"})
"""The upstream's own fields, unknown to chat, passed as they are. Others of its fields could add to
the bill unseen (`speed`, `inference_geo`, `container`) or contradict what is made here."""
_KNOWN: Final = CARRIED | DROPPED | PASSED

MAX_TEMPERATURE: Final = 1
"""The upstream's own limit; the chat dialect's is 2. What is above is sent as this."""
SERVICE_TIERS: Final = {
    "auto": "auto",
    "priority": "auto",
    "fast": "auto",
    "default": "standard_only",
    "standard": "standard_only",
}

_CONTACT = re.compile(r"[^@\s]+@[^@\s]+|\+[\d\s().-]{7,}")
"""An e-mail address or a telephone number: the upstream wants no such thing as a user's id."""

JSON_INSTRUCTION: Final = "Reply with one JSON object and nothing else."
DEFAULT_EFFORT: Final = "medium"
EFFORTS: Final = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
"""The upstream's effort by chat's; `none` asks for no reasoning."""
BUDGETS_TOKENS: Final = {"low": 1024, "medium": 2048, "high": 4096, "xhigh": 8192, "max": 16384}
"""Tokens of thinking for each effort, from the upstream's least, each twice the one before."""
MIN_BUDGET_TOKENS: Final = 1024
"""Tokens of thinking: the upstream refuses fewer. The budget must also stay below `max_tokens`."""


def translate_request(request: CompletionRequest, target: Target) -> Json:
    """Write the messages request. Raises BadRequest, naming the field that cannot be carried over."""
    given = {name: value for name, value in request.body.items() if value is not None}
    body = Field({**given, "messages": open_history(given["messages"], target.provider_tag)})
    body.check_fields(_KNOWN | open_fields(target), REFUSED)
    max_tokens = target.max_output_tokens if request.max_tokens is None else request.max_tokens
    conversation = translate_conversation(body["messages"], leading_system=target.leading_system)
    made: Json = {"model": request.model, "max_tokens": max_tokens}
    system = [*conversation.system, *_instruct(body["response_format"])]
    if system:
        made["system"] = system
    made["messages"] = conversation.turns
    made |= translate_tools(body, conversation.called)
    made |= _translate_sampling(body)
    made |= _translate_output(body, max_tokens, target, forced=is_forced(made))
    made |= _translate_labels(body)
    if "prompt_cache_key" in body.value and not _has_marks(made):
        made["cache_control"] = {"type": "ephemeral"}
    made |= {name: body.value[name] for name in PASSED if name in body.value}
    if request.stream:
        made["stream"] = True
    return made


def _has_marks(made: Json) -> bool:
    """Return whether the caller has marked what is to be cached: Anthropic takes four marks."""
    said = (block for turn in made["messages"] for block in turn["content"])
    return any(
        "cache_control" in one for one in (*made.get("system", ()), *made.get("tools", ()), *said)
    )


def _translate_sampling(body: Field) -> Json:
    temperature, top_p, stop = body["temperature"], body["top_p"], body["stop"]
    made: Json = {}
    if temperature.value is not None:
        made["temperature"] = min(temperature.value, MAX_TEMPERATURE)
    if top_p.value is not None:
        made["top_p"] = top_p.value
    sequences = [stop.value] if isinstance(stop.value, str) else stop.value or []
    if not all(sequence.strip() for sequence in sequences):
        raise stop.refuse("This model's provider takes no sequence of white space alone.")
    if sequences:
        made["stop_sequences"] = sequences
    return made


def _translate_output(body: Field, max_tokens: int, target: Target, *, forced: bool) -> Json:
    """Write `thinking` and `output_config`. The upstream refuses to think before a `forced` call."""
    effort_field = body["reasoning_effort"]
    if body["thinking"].value is not None and effort_field.value is not None:
        raise body["thinking"].refuse("It contradicts `reasoning_effort`: leave one out.")
    thinking, effort = _translate_reasoning(effort_field, max_tokens, target, forced=forced)
    schema = _read_schema(body["response_format"])
    made: Json = {} if thinking is None else {"thinking": thinking}
    config: Json = {} if effort is None else {"effort": effort}
    if schema is not None:
        config["format"] = {"type": "json_schema", "schema": schema}
    return {**made, "output_config": config} if config else made


def _read_schema(form: Field) -> Json | None:
    """Read the schema that the reply is to keep to, or None."""
    if form.value is None:
        return None
    match form["type"].value:
        case "text" | "json_object":
            return None
        case "json_schema":
            schema: Json = adapt_schema(form["json_schema"]["schema"].read_object())
            return schema
        case _:
            raise form["type"].refuse(
                "This model's provider takes text, json_object or json_schema."
            )


def _instruct(form: Field) -> list[Json]:
    """Ask in words for JSON without a schema: the upstream has no such setting."""
    if form.value is None or form.get("type") != "json_object":
        return []
    return [{"type": "text", "text": JSON_INSTRUCTION}]


def _translate_labels(body: Field) -> Json:
    made: Json = {}
    user, tier = body["safety_identifier"], body["service_tier"]
    if user.value is None:
        user = body["user"]
    if user.value is not None and user.read_string() and not _CONTACT.fullmatch(user.value):
        made["metadata"] = {"user_id": user.value}
    if tier.value is not None:
        if not isinstance(tier.value, str) or tier.value not in SERVICE_TIERS:
            raise tier.refuse(f"This model's provider takes {', '.join(SERVICE_TIERS)}.")
        made["service_tier"] = SERVICE_TIERS[tier.value]
    return made


def _translate_reasoning(
    field: Field, max_tokens: int, target: Target, *, forced: bool
) -> tuple[Json | None, str | None]:
    """Write `thinking` and `output_config.effort`, None where nothing is to be said."""
    word = field.value
    if word is None:
        return None, None
    if word != "none" and (not isinstance(word, str) or word not in EFFORTS):
        raise field.refuse(f"It is one of none, {', '.join(EFFORTS)}.")
    match target.reasoning:
        case "effort" if word == "none":
            return {"type": "disabled"}, None
        case "effort":
            return None if forced else {"type": "adaptive"}, EFFORTS[word]
        case "budget" if forced or word == "none":
            return None, None  # such models think only when they are told to
        case "budget":
            return _make_budget(field, max_tokens), None
        case "none":
            if word not in {"none", DEFAULT_EFFORT}:
                raise field.refuse("This model does not reason.")
            return None, None


def _make_budget(field: Field, max_tokens: int) -> Json | None:
    budget_tokens = min(BUDGETS_TOKENS[EFFORTS[field.value]], max_tokens - 1)
    if budget_tokens >= MIN_BUDGET_TOKENS:
        return {"type": "enabled", "budget_tokens": budget_tokens}
    if field.value == DEFAULT_EFFORT:
        return None
    raise field.refuse(
        f"To reason, this model needs a maximum of more than {MIN_BUDGET_TOKENS} tokens."
    )
