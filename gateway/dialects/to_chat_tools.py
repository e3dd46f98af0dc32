"""The tools of a messages request as those of a chat request. No I/O.

Only tools that the caller runs, with a schema of their own, exist on both sides (wire.md §5.2).
"""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.to_chat_fields import (
    Json,
    cannot_carry,
    check_known,
    name_type,
    read_list,
    read_object,
    read_text,
    refuse,
)

MAX_TOOL_NAME_CHARS: Final = 64
"""What a chat upstream takes; the messages dialect allows 128."""

DROPPED_TOOL_FIELDS: Final = frozenset(
    {"cache_control", "defer_loading", "eager_input_streaming", "input_examples"}
)
"""Advice to the upstream. A tool whose loading may be deferred is sent at once."""

_TOOL_FIELDS: Final = DROPPED_TOOL_FIELDS | {
    "allowed_callers",
    "description",
    "input_schema",
    "name",
    "strict",
    "type",
}
_CHOICE_FIELDS: Final = frozenset({"type", "name", "disable_parallel_tool_use"})
_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}


def write_tools(tools: Any) -> list[Json]:
    """Function tools. Raises BadRequest for those that the vendor's own servers run."""
    return [
        _write_tool(f"tools.{index}", tool) for index, tool in enumerate(read_list("tools", tools))
    ]


def write_tool_choice(choice: Any, *, with_tools: bool) -> Json:
    """`tool_choice` and `parallel_tool_calls`, which a chat upstream refuses without tools."""
    where = "tool_choice"
    check_known(where, read_object(where, choice), _CHOICE_FIELDS)
    kind = choice.get("type")
    fields: Json
    if kind == "tool":
        name = check_tool_name(f"{where}.name", choice.get("name"))
        fields = {"tool_choice": {"type": "function", "function": {"name": name}}}
    elif isinstance(kind, str) and kind in _CHOICES:
        fields = {"tool_choice": _CHOICES[kind]}
    else:
        raise refuse(f"{where}.type", "must be 'auto', 'any', 'tool' or 'none'.")
    if not with_tools:
        if kind in {"any", "tool"}:
            raise refuse(where, f"'{kind}' needs tools.")
        return {}
    if kind != "none" and choice.get("disable_parallel_tool_use") is True:
        fields["parallel_tool_calls"] = False
    return fields


def check_tool_name(where: str, name: Any) -> str:
    if len(read_text(where, name)) > MAX_TOOL_NAME_CHARS:
        raise refuse(
            where,
            f"this model's provider takes names of at most {MAX_TOOL_NAME_CHARS} characters.",
        )
    return str(name)


def _write_tool(where: str, tool: Any) -> Json:
    kind = read_object(where, tool).get("type")
    if kind not in (None, "custom"):
        raise cannot_carry(f"{where}.type", name_type("a tool", kind))
    check_known(where, tool, _TOOL_FIELDS)
    callers = tool.get("allowed_callers")
    if callers is not None and "direct" not in read_list(f"{where}.allowed_callers", callers):
        raise cannot_carry(f"{where}.allowed_callers", "a tool that only other tools may call")
    function: Json = {"name": check_tool_name(f"{where}.name", tool.get("name"))}
    if (description := tool.get("description")) is not None:
        function["description"] = read_text(f"{where}.description", description)
    function["parameters"] = read_object(f"{where}.input_schema", tool.get("input_schema"))
    if (strict := tool.get("strict")) is not None:
        function["strict"] = strict
    return {"type": "function", "function": function}
