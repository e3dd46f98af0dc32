"""The checks of a Responses request."""

from __future__ import annotations

from typing import Any, Final

from gateway.base.errors import BadRequest
from gateway.dialects.wire import fields
from gateway.dialects.wire.jsonbytes import get_object
from gateway.dialects.wire.known import FILE_NAMES, MARK_NAMES, TOOL_NAMES, add_others
from gateway.dialects.wire.names import Names
from gateway.dialects.wire.records import CompletionRequest, Json

_TOOLS: Final = ("apply_patch", "computer", "custom_tool", "function", "local_shell", "shell")

_RUN_TOOLS: Final = ("code_interpreter", "file_search", "mcp", "tool_search", "web_search")


ROLES: Final = frozenset({"assistant", "developer", "system", "user"})


_TEXTS: Final = frozenset({"input_text", "output_text"})
_TEXT_PARTS: Final = frozenset(
    {*_TEXTS, "text", "refusal", "summary_text", "reasoning_text", "encrypted_content"}
)
"""Parts whose bytes bound their tokens. Any other part counts as a document, unless it is another file."""


_BOUNDED_ITEMS: Final = frozenset(
    {"message", "reasoning", "compaction", "ghost_snapshot", "program", "program_output"}
    | {"additional_tools", "compaction_trigger", "configuration_update", "mcp_list_tools"}
    | {"mcp_approval_request", "mcp_approval_response", "tool_search_output"}
    | {f"{name}_call" for name in (*_TOOLS, *_RUN_TOOLS)}
    | {f"{name}_call_output" for name in _TOOLS}
)
"""Items whose bytes bound their tokens, except for their parts. Any other item counts as a document."""
_PLAIN_MEMBERS: Final = 2
"""Members of a plain part of text."""
_ITEM: Final = Names(
    {"arguments", "call_id", "content", "encrypted_content", "id", "name", "output", "result"}
    | {"role", "status", "summary", "type"},
    {**MARK_NAMES, "tools": TOOL_NAMES},
)
_OWN: Final = {
    "custom_tool_call": ("input",),
    "input_audio": ("input_audio",),
    "input_file": ("file_data", "file_url"),
    **dict.fromkeys(("computer_screenshot", "input_image"), ("image_url",)),
}
"""Members that are no files despite their names, or that are checked, by the type of item or part."""
_PART: Final = Names(
    {"annotations", "file_url", "image_url", "logprobs", "text", "type", *FILE_NAMES.known},
    {**MARK_NAMES, "input_audio": FILE_NAMES},
)
_HELD: Final = ("content", "output")
"""Members of an item that may have parts."""


def check_input(held: object, request: CompletionRequest, *, refers: bool) -> None:
    if type(held) is str:
        return
    if type(held) is not list:
        raise fields.wrong_type("input", "a string or an array of items", held)
    if not held:
        raise fields.empty("array", "input")
    for index, item in enumerate(held):
        if type(item) is not dict:
            raise fields.wrong_type(f"input[{index}]", "an object", item)
        if is_reference(item):
            _check_reference(f"input[{index}]", item, refers=refers)
        else:
            _check_item(f"input[{index}]", item, request)


def is_reference(item: Json) -> bool:
    """Return whether an item stands for an earlier one by its id."""
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and "id" in item and item.get("role") is None)


def _check_reference(where: str, item: Json, *, refers: bool) -> None:
    if not refers:
        raise _refuse_reference(where)
    fields.check_string(f"{where}.id", item.get("id"))


def _check_item(where: str, item: Json, request: CompletionRequest) -> None:
    kind = item.get("type")
    if not item.keys() <= _ITEM.plain:
        _ITEM.check(where, item)
        add_others(request, item, _OWN.get(kind, ()) if type(kind) is str else ())
    if kind is None or kind == "message":
        _check_message(where, item)
    elif type(kind) is not str:
        raise fields.wrong_type(f"{where}.type", "a string", kind)
    elif kind not in _BOUNDED_ITEMS:
        is_picture = kind == "image_generation_call"
        request.add_file("picture" if is_picture else "document", item.get("result"), where)
    for name in _HELD:
        parts = item.get(name)
        if type(parts) is dict:  # the screenshot of a computer's call
            parts = [parts]
        if type(parts) is list and kind != "shell_call_output":  # it has objects without a type
            _check_parts(f"{where}.{name}", parts, request)
        elif parts is not None and type(parts) not in (str, list):
            raise fields.wrong_type(f"{where}.{name}", "a string or an array of parts", parts)


def _check_message(where: str, message: Json) -> None:
    fields.check_word(f"{where}.role", message.get("role"), ROLES)
    if message.get("content") is None:
        raise fields.missing(f"{where}.content")


def _check_parts(where: str, parts: list[Any], request: CompletionRequest) -> None:
    for index, part in enumerate(parts):
        name = f"{where}[{index}]"
        kind = fields.maybe_kind(part)
        if kind is None or (kind in _TEXTS and type(part.get("text")) is not str):
            raise fields.refuse_part(name, part)
        if len(part) > _PLAIN_MEMBERS or kind not in _TEXT_PARTS:
            _PART.check(name, part)
            add_others(request, part, _OWN.get(kind, ()))
        if part.get("file_id") is not None:
            raise fields.unsupported_file(f"{name}.file_id", "'file_data' or 'image_url'")
        match kind:
            case "input_image" | "computer_screenshot":
                request.add_url("picture", part.get("image_url"), name)
            case "input_file":
                data = part.get("file_data")  # a data URL, or base64 alone; else there is a link
                is_base64 = isinstance(data, str) and not data.startswith("data:")
                (request.add_file if is_base64 else request.add_url)("document", data, name)
            case _ if "audio" in kind:
                request.add_file("audio", get_object(part, kind).get("data"), name)
            case _ if kind not in _TEXT_PARTS:
                request.add_file("document", None, name)
            case _:
                pass


def _refuse_state(name: str, what: str) -> BadRequest:
    return fields.unsupported(
        name,
        f" asks for {what}, which this gateway does not offer: send the whole conversation as 'input',"
        " with 'store: false'.",
    )


def _refuse_reference(name: str) -> BadRequest:
    """Make the error for an item that is named by its id, as one SDK does by default."""
    return fields.unsupported(
        name,
        " refers to an item of an earlier response, and this gateway keeps none: send the item itself."
        " Vercel's AI SDK does so with `providerOptions.openai.store: false`; without it, each step of"
        " a tool loop sends ids in place of earlier items.",
    )


def refuse(what: str) -> fields.Check:
    """Make the check of a field that must be absent."""

    def check(name: str, _value: object) -> None:
        raise _refuse_state(name, what)

    return check


def refuse_true(what: str) -> fields.Check:
    """Make the check of a field that must be false."""

    def check(name: str, value: object) -> None:
        fields.check_boolean(name, value)
        if value:
            raise _refuse_state(name, what)

    return check
