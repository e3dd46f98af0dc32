"""Chat tools and functions as Responses tools, and which of them may be called."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.chat.parts import SEARCH_CHOICE, SEARCH_OPTIONS, read_location
from gateway.dialects.chat.writer import uses_functions
from gateway.dialects.records import Json
from gateway.dialects.wire.fields import Field
from gateway.money import WEB_SEARCH

_KINDS: Final = frozenset({"function", "custom"})
"""Tools that the caller runs itself."""
_KNOWN_OF_SEARCH: Final = frozenset(
    {"allowed_domains", "max_uses", "search_context_size", "user_location"}
)
"""The upstream has no limit of uses."""
_WORDS: Final = ("auto", "required", "none")


def translate_tools(body: Field) -> Json:
    """Write `tools`, `tool_choice` and `parallel_tool_calls`.

    Raises BadRequest for tools that the caller does not run itself.
    """
    tools = [_read_tool(tool) for tool in _read_items(body["tools"])]
    tools += (_read_function(function) for function in _read_items(body["functions"]))
    tools += _read_search(body[SEARCH_OPTIONS])
    choice = body["tool_choice"]
    if choice.value is None:
        choice = body["function_call"]
    if not tools:
        if choice.value not in (None, "auto", "none"):
            raise choice.refuse("There are no tools in the request to choose from.")
        return {}
    made: Json = {"tools": tools}
    if choice.value is not None:
        made["tool_choice"] = _read_choice(choice)
    if (parallel := _read_parallel(body)) is not None:
        made["parallel_tool_calls"] = parallel
    return made


def _read_items(field: Field) -> list[Field]:
    return field.read_items() if field.value else []


def _read_kind(tool: Field) -> str:
    kind = tool.read_object().get("type", "function")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise tool["type"].refuse(f"This model's provider takes: {', '.join(sorted(_KINDS))}.")
    return kind


def _read_tool(tool: Field) -> Json:
    if _read_kind(tool) == "function":
        return _read_function(tool["function"])
    custom = tool["custom"]
    made: Json = {"type": "custom", "name": custom["name"].read_text()}
    if (description := custom.get("description")) is not None:
        made["description"] = description
    match custom.get("format"):
        case None:
            return made
        case {"type": "grammar", "grammar": dict(grammar)}:
            return {**made, "format": {"type": "grammar", **grammar}}
        case held:
            return {**made, "format": held}


def _read_function(function: Field) -> Json:
    """Write a function with `strict`, which the upstream takes for true where it is missing."""
    tool: Json = {"type": "function", "name": function["name"].read_text()}
    if (description := function.get("description")) is not None:
        tool["description"] = description
    parameters = function["parameters"]
    tool["parameters"] = {} if parameters.value is None else parameters.read_object()
    if not tool["parameters"]:
        tool["parameters"] = {"type": "object", "properties": {}}
    return {**tool, "strict": function.get("strict") is True}


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


def _read_choice(choice: Field) -> Any:
    match choice.value:
        case {"type": "web_search"}:  # the upstream has no word for it but this
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
            raise choice.refuse(
                f"This model's provider takes {', '.join(_WORDS)}, the name of a function or of a "
                "custom tool, or allowed tools."
            )


def _read_named(tool: Field) -> Json:
    kind = _read_kind(tool)
    return {"type": kind, "name": tool[kind]["name"].read_text()}


def _read_parallel(body: Field) -> bool | None:
    """Read `parallel_tool_calls`; functions were called one at a time."""
    parallel: Any = body.get("parallel_tool_calls")
    if parallel is not None and not isinstance(parallel, bool):
        raise body["parallel_tool_calls"].wrong_type("a boolean")
    return False if uses_functions(body.value) else parallel
