"""A chat request as a messages request: its fields and its tools.

Every field of the chat schema is in one of the tables below, so that none is lost silently.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gateway.base.money import WEB_SEARCH
from gateway.dialects.chat.writer import SEARCH_CHOICE, SEARCH_OPTIONS, read_location
from gateway.dialects.translate import pivot
from gateway.dialects.translate.chat_over_messages_conversation import CACHE_MARK, MessagesTurns
from gateway.dialects.wire.call_ids import shape_name
from gateway.dialects.wire.customs import make_function
from gateway.dialects.wire.fields import Field
from gateway.dialects.wire.jsonbytes import get_object, get_text
from gateway.dialects.wire.records import CompletionRequest, Json, Target

_FORCING: Final = frozenset({"any", "tool"})


CARRIED: Final = pivot.CARRIED | {"stop"}
DROPPED: Final = pivot.DROPPED | {
    *("metadata", "prompt_cache_options", "prompt_cache_retention", "verbosity")
}
REFUSED: Final = pivot.REFUSED
PASSED: Final = frozenset({"cache_control", "thinking", "top_k"})
"""The upstream's own fields, unknown to chat, that are passed unchanged. Its other fields could add to the
bill unseen (`speed`, `inference_geo`, `container`) or contradict the translated ones."""
_KNOWN: Final = CARRIED | DROPPED | PASSED | pivot.VENDORS_ADVICE

MAX_TEMPERATURE: Final = 1
"""The upstream's limit; chat's is 2. Higher temperatures are lowered to it."""
SERVICE_TIERS: Final = {
    **dict.fromkeys(("auto", "priority", "fast"), "auto"),
    **dict.fromkeys(("default", "standard"), "standard_only"),
}

_CONTACT = re.compile(r"[^@\s]+@[^@\s]+|\+[\d\s().-]{7,}")
"""An e-mail address or a telephone number, which the upstream refuses as a user's id."""

JSON_INSTRUCTION: Final = "Reply with one JSON object and nothing else."
EFFORTS: Final = {
    "minimal": "low",
    **{name: name for name in ("low", "medium", "high", "xhigh", "max")},
}
"""The upstream's effort by chat's; `none` asks for no reasoning."""
BUDGETS_TOKENS: Final = {"low": 1024, "medium": 2048, "high": 4096, "xhigh": 8192, "max": 16384}
"""Tokens of thinking for each effort: the upstream's least, then each twice the one before."""
_THINKS: Final = frozenset({"adaptive", "enabled"})
_SHOWN: Final = {"display": "summarized"}
"""Requests the text of thinking. From Claude Opus 4.7 on none comes without this; older models send it."""
MIN_TOP_P: Final = 0.95
"""The least `top_p` that the upstream takes while it thinks: Anthropic's own limit."""
MIN_BUDGET_TOKENS: Final = 1024
"""Tokens of thinking: the upstream refuses fewer. The budget must also stay below `max_tokens`."""


def translate_request(request: CompletionRequest, target: Target) -> Json:
    """Write the messages request. Raises BadRequest, naming the field that cannot be carried over."""
    body = pivot.open_request(request, target, _KNOWN, REFUSED)
    # The upstream requires a limit. If the caller states none, the model's cap is sent.
    max_tokens = target.max_output_tokens if request.max_tokens is None else request.max_tokens
    conversation = MessagesTurns(body["messages"], leading_system=target.leading_system)
    made: Json = {"model": request.model, "max_tokens": max_tokens}
    form = body["response_format"]
    if form.value is not None and form.get("type") == "json_object":
        conversation.system.append({"type": "text", "text": JSON_INSTRUCTION})
    if conversation.system:
        made["system"] = conversation.system
    made["messages"] = conversation.turns
    made |= translate_tools(body, conversation.called)
    made |= _translate_sampling(body)
    forced = get_text(get_object(made, "tool_choice"), "type") in _FORCING
    made |= _translate_output(body, max_tokens, target, forced=forced)
    made |= _translate_labels(body)
    # Anthropic takes four marks at most, so one is added only where the caller set none.
    if "prompt_cache_key" in body.value and not _has_marks(made):
        made[CACHE_MARK] = {"type": "ephemeral"}
    made |= {name: body.value[name] for name in PASSED if name in body.value}
    if request.stream:
        made["stream"] = True
    return _settle(made, forced=forced)


def _settle(made: Json, *, forced: bool) -> Json:
    """Leave out the fields that the upstream refuses beside others.

    It refuses thinking beside a forced tool or a prefilled reply, settings of sampling beside thinking, and
    `temperature` beside `top_p`.
    """
    thinking, left = get_object(made, "thinking"), set[str]()
    if get_text(thinking, "type") in _THINKS:
        budget, most = thinking.get("budget_tokens"), made["max_tokens"] - 1
        has_room = True
        if type(budget) is int and budget > most:
            made["thinking"] = {**thinking, "budget_tokens": most}
            has_room = most >= MIN_BUDGET_TOKENS
        if not has_room or forced or made["messages"][-1]["role"] == "assistant":
            left.add("thinking")
        else:
            left |= {"temperature", "top_k"}
            if made.get("top_p", 1) < MIN_TOP_P:
                left.add("top_p")
    if "temperature" in made.keys() - left:
        left.add("top_p")
    return {name: made[name] for name in made if name not in left} if left else made


def _has_marks(made: Json) -> bool:
    """Return whether the caller has set cache marks."""
    said = (block for turn in made["messages"] for block in turn["content"])
    return any(
        CACHE_MARK in one for one in (*made.get("system", ()), *made.get("tools", ()), *said)
    )


def _translate_sampling(body: Field) -> Json:
    made: Json = {}
    if (temperature := body.get("temperature")) is not None:  # above 1 it would be refused
        made["temperature"] = min(temperature, MAX_TEMPERATURE)
    if (top_p := body.get("top_p")) is not None:
        made["top_p"] = top_p
    stop = body["stop"]
    sequences = [stop.value] if isinstance(stop.value, str) else stop.value or []
    if not all(map(str.strip, sequences)):
        raise stop.refuse("This model's provider takes no sequence of white space alone.")
    return {**made, "stop_sequences": sequences} if sequences else made


def _translate_output(body: Field, max_tokens: int, target: Target, *, forced: bool) -> Json:
    """Write `thinking` and `output_config`. The upstream refuses to think before a `forced` call."""
    effort = body["reasoning_effort"]
    if body["thinking"].value is not None and effort.value is not None:
        raise body["thinking"].refuse("It contradicts `reasoning_effort`: leave one out.")
    made: Json = {}
    if effort.value is not None:
        made = _translate_reasoning(effort, max_tokens, target, forced=forced)
    form = body["response_format"]
    if form.value is None:
        return made
    match form.get("type"):
        case "text" | "json_object":  # for JSON, an instruction was added
            return made
        case "json_schema":
            schema = form["json_schema"]["schema"].read_object()
            config = made.get("output_config", {})
            config = {**config, "format": {"type": "json_schema", "schema": schema}}
            return {**made, "output_config": config}
        case _:
            raise pivot.refuse_format(form)


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
    if word != "none" and (not isinstance(word, str) or word not in EFFORTS):
        raise field.refuse(f"It is one of none, {', '.join(EFFORTS)}.")
    match target.reasoning:
        case "effort" if word == "none":
            return {"thinking": {"type": "disabled"}}
        case "effort":
            thinking = {} if forced else {"thinking": {"type": "adaptive", **_SHOWN}}
            return {**thinking, "output_config": {"effort": EFFORTS[word]}}
        case "budget" if forced or word == "none":
            return {}  # such models think only on request
        case "budget":
            budget_tokens = min(BUDGETS_TOKENS[EFFORTS[word]], max_tokens - 1)
            if budget_tokens < MIN_BUDGET_TOKENS:
                return {}  # the limit leaves no room for the least one
            return {"thinking": {"type": "enabled", "budget_tokens": budget_tokens}}
        case "none":
            return {}


_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}


_SEARCH: Final[Json] = {"type": "web_search_20250305", "name": WEB_SEARCH}
"""The version of the search tool that all of the upstream's models accept."""
_SEARCH_FIELDS: Final = frozenset({"allowed_domains", "blocked_domains", "max_uses"})
_KNOWN_OF_SEARCH: Final = _SEARCH_FIELDS | {"search_context_size", "user_location"}
"""Fields of a search that are accepted. `search_context_size` is left out: the upstream chooses it itself."""


def translate_tools(body: Field, called: Sequence[str]) -> Json:
    """Write `tools` and `tool_choice`. Raises BadRequest for tools that the caller does not run.

    If the request has no tools, those called earlier are declared, since the upstream refuses calls without
    tools. A `tool_choice` of `none` prevents further calls.
    """
    tools = pivot.read_tools(body, _read_tool, _read_function)
    choice, search = pivot.find_choice(body), _read_search(body[SEARCH_OPTIONS])
    if tools or search:
        chosen: Json | None
        if search and choice.value == SEARCH_CHOICE:
            chosen = {"type": "tool", "name": WEB_SEARCH}
        else:
            chosen, tools = _read_choice(choice, tools)
        tools += search
        if pivot.read_parallel(body) is False and (chosen is None or chosen["type"] != "none"):
            chosen = {**(chosen or {"type": "auto"}), "disable_parallel_tool_use": True}
        return {"tools": tools, "tool_choice": chosen} if chosen else {"tools": tools}
    pivot.check_no_choice(choice)
    if not called:
        return {}
    empty = {"type": "object", "properties": {}}
    names = dict.fromkeys(map(shape_name, called))
    declared = [{"name": name, "input_schema": empty} for name in names]
    return {"tools": declared, "tool_choice": {"type": "none"}}


def _read_tool(tool: Field) -> Json:
    match tool.read_object().get("type", "function"):
        case "function":
            made = _read_function(tool["function"])
        case "custom":
            made = make_function(tool["custom"])
            made["input_schema"] = made.pop("parameters")
        case _:
            raise tool["type"].refuse("This model's provider takes functions and custom tools.")
    return pivot.copy_mark(CACHE_MARK, tool, made)


def _read_function(function: Field) -> Json:
    tool = pivot.read_function(function, "input_schema")
    return {**tool, "strict": True} if function.get("strict") is True else tool


def _read_search(options: Field) -> list[Json]:
    if options.value is None:
        return []
    options.check_fields(_KNOWN_OF_SEARCH, {})
    given = {name: value for name, value in options.value.items() if name in _SEARCH_FIELDS}
    return [{**_SEARCH, **given, **read_location(options)}]


def _read_choice(choice: Field, tools: list[Json]) -> tuple[Json | None, list[Json]]:
    match choice.value:
        case None:
            return None, tools
        case "auto" | "required" | "none" as word:
            return {"type": _CHOICES[word]}, tools
        case {"type": "function", "function": {"name": str(tool)}} | {
            "type": "custom",
            "custom": {"name": str(tool)},
        }:
            return {"type": "tool", "name": tool}, tools
        case {"name": str(tool)} if choice.name == "function_call":
            return {"type": "tool", "name": tool}, tools
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required" as mode}}:
            return {"type": _CHOICES[mode]}, _keep_allowed(choice["allowed_tools"]["tools"], tools)
        case _:
            raise pivot.refuse_choice(choice)


def _keep_allowed(allowed: Field, tools: list[Json]) -> list[Json]:
    by_name = {tool["name"]: tool for tool in tools}
    wanted = set()
    for item in allowed.read_items():
        match item.value:
            case {"type": "function", "function": {"name": str(name)}} | {
                "type": "custom",
                "custom": {"name": str(name)},
            } if name in by_name:
                wanted.add(name)
            case _:
                raise item.refuse("It is none of `tools`.")
    if not wanted:
        raise allowed.refuse("At least one tool must be allowed.")
    return [tool for tool in tools if tool["name"] in wanted]
