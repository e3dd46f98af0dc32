"""A chat request as a messages request: its fields, its tools, and JSON schemas.

Every field of the chat schema is in one of the tables below, so that none is lost silently.

Schemas are adapted as Anthropic's own SDKs do: every object is closed, `oneOf` becomes `anyOf`, and
what the upstream refuses (such as `minimum`) is told in the description instead. A malformed schema is
left to the upstream to refuse.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.dialects import from_chat
from gateway.dialects.chat_over_messages.conversation import CACHE_MARK, Turns
from gateway.dialects.chat_over_messages.tools import adapt_schema, is_forced, translate_tools
from gateway.dialects.records import CompletionRequest, Json, Target
from gateway.dialects.wire.fields import Field

CARRIED: Final = from_chat.CARRIED | {"stop"}
DROPPED: Final = frozenset(
    {
        *("metadata", "prompt_cache_options", "prompt_cache_retention", "seed"),
        *("stream_options", "verbosity"),
    }
)
"""Left out: they change how a reply is stored, cached, framed or worded, not what it is about."""
REFUSED: Final = from_chat.REFUSED
PASSED: Final = frozenset({"cache_control", "thinking", "top_k"})
"""The upstream's own fields, unknown to chat, passed as they are. Others of its fields could add to
the bill unseen (`speed`, `inference_geo`, `container`) or contradict what is made here."""
_KNOWN: Final = CARRIED | DROPPED | PASSED

MAX_TEMPERATURE: Final = 1
"""The upstream's own limit; the chat dialect's is 2. What is above is sent as this."""
SERVICE_TIERS: Final = {
    **dict.fromkeys(("auto", "priority", "fast"), "auto"),
    **dict.fromkeys(("default", "standard"), "standard_only"),
}

_CONTACT = re.compile(r"[^@\s]+@[^@\s]+|\+[\d\s().-]{7,}")
"""An e-mail address or a telephone number: the upstream wants no such thing as a user's id."""

JSON_INSTRUCTION: Final = "Reply with one JSON object and nothing else."
EFFORTS: Final = {
    "minimal": "low",
    **{name: name for name in ("low", "medium", "high", "xhigh", "max")},
}
"""The upstream's effort by chat's; `none` asks for no reasoning."""
BUDGETS_TOKENS: Final = {"low": 1024, "medium": 2048, "high": 4096, "xhigh": 8192, "max": 16384}
"""Tokens of thinking for each effort, from the upstream's least, each twice the one before."""
MIN_BUDGET_TOKENS: Final = 1024
"""Tokens of thinking: the upstream refuses fewer. The budget must also stay below `max_tokens`."""


def translate_request(request: CompletionRequest, target: Target) -> Json:
    """Write the messages request. Raises BadRequest, naming the field that cannot be carried over."""
    body = from_chat.open_request(request, target, _KNOWN, REFUSED)
    # The upstream requires a limit; without one from the caller it is the model's own.
    max_tokens = target.max_output_tokens if request.max_tokens is None else request.max_tokens
    conversation = Turns(body["messages"], leading_system=target.leading_system)
    made: Json = {"model": request.model, "max_tokens": max_tokens}
    form = body["response_format"]
    if form.value is not None and form.get("type") == "json_object":
        conversation.system.append({"type": "text", "text": JSON_INSTRUCTION})
    if conversation.system:
        made["system"] = conversation.system
    made["messages"] = conversation.turns
    made |= translate_tools(body, conversation.called)
    made |= _translate_sampling(body)
    made |= _translate_output(body, max_tokens, target, forced=is_forced(made))
    made |= _translate_labels(body)
    # Anthropic takes four marks at most, so one is added only where the caller set none.
    if "prompt_cache_key" in body.value and not _has_marks(made):
        made[CACHE_MARK] = {"type": "ephemeral"}
    made |= {name: body.value[name] for name in PASSED if name in body.value}
    if request.stream:
        made["stream"] = True
    return made


def _has_marks(made: Json) -> bool:
    """Return whether the caller has marked what is to be cached."""
    said = (block for turn in made["messages"] for block in turn["content"])
    return any(
        CACHE_MARK in one for one in (*made.get("system", ()), *made.get("tools", ()), *said)
    )


def _translate_sampling(body: Field) -> Json:
    made: Json = {}
    if (temperature := body.get("temperature")) is not None:  # beyond 1 it would be refused
        made["temperature"] = min(temperature, MAX_TEMPERATURE)
    if (top_p := body.get("top_p")) is not None:
        made["top_p"] = top_p
    stop = body["stop"]
    sequences = [stop.value] if isinstance(stop.value, str) else stop.value or []
    if not all(sequence.strip() for sequence in sequences):
        raise stop.refuse("This model's provider takes no sequence of white space alone.")
    return {**made, "stop_sequences": sequences} if sequences else made


def _translate_output(body: Field, max_tokens: int, target: Target, *, forced: bool) -> Json:
    """Write `thinking` and `output_config`. The upstream refuses to think before a `forced` call."""
    effort = body["reasoning_effort"]
    if body["thinking"].value is not None and effort.value is not None:
        raise body["thinking"].refuse("It contradicts `reasoning_effort`: leave one out.")
    made = _translate_reasoning(effort, max_tokens, target, forced=forced)
    form = body["response_format"]
    if form.value is None:
        return made
    match form.get("type"):
        case "text" | "json_object":  # which the instructions ask for in words
            return made
        case "json_schema":
            schema = adapt_schema(form["json_schema"]["schema"].read_object())
            config = made.get("output_config", {})
            config = {**config, "format": {"type": "json_schema", "schema": schema}}
            return {**made, "output_config": config}
        case _:
            raise from_chat.refuse_format(form)


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


def _translate_reasoning(field: Field, max_tokens: int, target: Target, *, forced: bool) -> Json:
    """Write `thinking`, and `output_config` with an effort."""
    word = field.value
    if word is None:
        return {}
    if word != "none" and (not isinstance(word, str) or word not in EFFORTS):
        raise field.refuse(f"It is one of none, {', '.join(EFFORTS)}.")
    match target.reasoning:
        case "effort" if word == "none":
            return {"thinking": {"type": "disabled"}}
        case "effort":
            thinking = {} if forced else {"thinking": {"type": "adaptive"}}
            return {**thinking, "output_config": {"effort": EFFORTS[word]}}
        case "budget" if forced or word == "none":
            return {}  # such models think only when they are told to
        case "budget":
            return _make_budget(field, max_tokens)
        case "none":
            from_chat.check_no_effort(field)
            return {}


def _make_budget(field: Field, max_tokens: int) -> Json:
    budget_tokens = min(BUDGETS_TOKENS[EFFORTS[field.value]], max_tokens - 1)
    if budget_tokens >= MIN_BUDGET_TOKENS:
        return {"thinking": {"type": "enabled", "budget_tokens": budget_tokens}}
    if field.value == from_chat.DEFAULT_EFFORT:
        return {}
    raise field.refuse(
        f"To reason, this model needs a maximum of more than {MIN_BUDGET_TOKENS} tokens."
    )
