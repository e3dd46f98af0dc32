"""A chat request as a Responses request: its tools and its settings, around its conversation.

Every field of the chat schema is in one of the tables below, so that none is lost silently.
"""

from __future__ import annotations

from typing import Final

from gateway.base.money import WEB_SEARCH
from gateway.dialects.chat.writer import SEARCH_CHOICE, SEARCH_OPTIONS, read_location
from gateway.dialects.translate import pivot
from gateway.dialects.wire.fields import Field
from gateway.dialects.wire.records import CompletionRequest, Json, Target
from gateway.extras.responses.chat_conversation import Items, lift_instructions
from gateway.extras.tool_schemas.roots import shape_root

SHARED: Final = frozenset(
    {
        *("metadata", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
        *("safety_identifier", "service_tier", "temperature", "top_p", "user"),
    }
)
"""Fields that both dialects have."""
CARRIED: Final = pivot.CARRIED | SHARED | {"verbosity"}
DROPPED: Final = pivot.DROPPED
REFUSED: Final = {**pivot.REFUSED, "stop": ([],)}
PASSED: Final = frozenset({"reasoning", "truncation"})
"""The upstream's own fields, unknown to chat, passed as they are."""
_KNOWN: Final = CARRIED | DROPPED | PASSED | pivot.VENDORS_ADVICE | {"top_k"}
_COPIED: Final = SHARED | PASSED - {"reasoning"}

MIN_OUTPUT_TOKENS: Final = 16
"""The least token limit that OpenAI accepts."""
_KINDS: Final = ("custom", "function")
"""Tools that the caller runs itself."""
_KNOWN_OF_SEARCH: Final = frozenset(
    {"allowed_domains", "max_uses", "search_context_size", "user_location"}
)
"""Fields of a search that are accepted. `max_uses` is left out: the upstream has no limit of uses."""


def translate_request(request: CompletionRequest, target: Target) -> Json:
    """Write the Responses request. Raises BadRequest, naming the field that cannot be carried over."""
    body = pivot.open_request(request, target, _KNOWN, REFUSED)
    text = _translate_text(body)
    items = Items(body["messages"]).items
    made: Json = {"model": request.model}
    # For a `json_object` the upstream requires the word JSON, and looks for it only in the items.
    needs_the_word = "format" in text and text["format"]["type"] == "json_object"
    if target.leading_system or not needs_the_word:
        instructions, items = lift_instructions(items, everywhere=target.leading_system)
        if instructions:
            made["instructions"] = instructions
    made["input"] = items
    made |= _translate_tools(body)
    if request.max_tokens is not None:  # the upstream refuses a limit below `MIN_OUTPUT_TOKENS`
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
    """Write the requested form and verbosity of the reply."""
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
            raise pivot.refuse_format(form)


def _translate_reasoning(body: Field, target: Target) -> Json:
    """Write `reasoning`: the upstream's own field, if the caller sent it, with chat's `reasoning_effort`."""
    own: Json = {} if body["reasoning"].value is None else body["reasoning"].read_object()
    effort = body["reasoning_effort"]
    if effort.value is None:
        return own
    if own.get("effort") is not None:
        raise body["reasoning"].refuse("It contradicts `reasoning_effort`: leave one out.")
    word = effort.read_string()
    return own if target.reasoning == "none" else {**own, "effort": word}


def _translate_tools(body: Field) -> Json:
    """Write `tools`, `tool_choice` and `parallel_tool_calls`.

    Raises BadRequest for tools that the caller does not run itself.
    """
    tools = pivot.read_tools(body, _read_tool, _read_function) + _read_search(body[SEARCH_OPTIONS])
    choice = pivot.find_choice(body)
    if not tools:
        pivot.check_no_choice(choice)
        return {}
    made: Json = {"tools": tools}
    if choice.value is not None:
        made["tool_choice"] = _read_choice(choice)
    parallel = pivot.read_parallel(body)
    return made if parallel is None else {**made, "parallel_tool_calls": parallel}


def _read_kind(tool: Field) -> str:
    kind: str = tool.read_object().get("type", "function")
    if kind not in _KINDS:
        raise tool["type"].refuse(f"This model's provider takes: {', '.join(_KINDS)}.")
    return kind


def _read_tool(tool: Field) -> Json:
    if _read_kind(tool) == "function":
        return _read_function(tool["function"])
    custom = tool["custom"]
    made: Json = {"type": "custom", **pivot.read_head(custom)}
    match custom.get("format"):
        case None:
            return made
        case {"type": "grammar", "grammar": dict(grammar)}:
            return {**made, "format": {"type": "grammar", **grammar}}
        case held:
            return {**made, "format": held}


def _read_function(function: Field) -> Json:
    """Write a function with `strict`. If it is missing, the upstream takes it for true."""
    tool = pivot.read_function(function, "parameters")
    if (given := function.get("parameters")) is not None:
        tool["parameters"] = shape_root(given)
    # A root that had to be changed does not fulfil the upstream's rules for strict schemas.
    is_same = tool["parameters"] is given
    return {"type": "function", **tool, "strict": is_same and function.get("strict") is True}


def _read_search(options: Field) -> list[Json]:
    if options.value is None:
        return []
    options.check_fields(_KNOWN_OF_SEARCH, {})
    made = {"type": WEB_SEARCH, **read_location(options)}
    if (size := options.get("search_context_size")) is not None:
        made["search_context_size"] = size
    if (domains := options.get("allowed_domains")) is not None:
        made["filters"] = {"allowed_domains": domains}
    return [made]


def _read_choice(choice: Field) -> object:
    match choice.value:
        case {"type": "web_search"}:  # the only form in which the upstream takes this choice
            return {"type": "allowed_tools", "mode": "required", "tools": [SEARCH_CHOICE]}
        case "auto" | "required" | "none" as word:
            return word
        case {"type": "function" | "custom"}:
            return _read_named(choice)
        case {"name": str(name)} if choice.name == "function_call":
            return {"type": "function", "name": name}
        case {"type": "allowed_tools"}:
            allowed = choice["allowed_tools"]
            tools = [_read_named(tool) for tool in allowed["tools"].read_items()]
            return {"type": "allowed_tools", "mode": allowed["mode"].read_text(), "tools": tools}
        case _:
            raise pivot.refuse_choice(choice)


def _read_named(tool: Field) -> Json:
    kind = _read_kind(tool)
    return {"type": kind, "name": tool[kind]["name"].read_text()}
