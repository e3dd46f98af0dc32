"""Responses tools as chat functions, which of them may be called, and their names on the way back.

A custom tool takes free text: it becomes a function with one string argument. The tools of a namespace
have the name of it in front. Hosted tools, which a vendor's servers run, are left out: coding agents
always declare them. Only web search is carried over, if the model has a price for it.

The free text of a custom tool is decoded while the function's arguments come: a patch of a thousand
lines takes minutes, and callers give up a stream in which nothing happens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from gateway.dialects.chat.writer import SEARCH_CHOICE, add_search, is_search, make_search
from gateway.dialects.records import Json, Target
from gateway.dialects.schemas import shape_root
from gateway.dialects.wire.fields import Field
from gateway.dialects.wire.jsonbytes import maybe_loads

MAX_NAME_CHARS: Final = 64
"""Characters of a function's name: OpenAI's own limit, which a namespace in front may exceed."""
_DIGEST_CHARS: Final = 8
"""Characters of the digest that keeps shortened names distinct: enough for one request."""

INPUT_KEY: Final = "input"
"""The argument of a custom tool's function."""
_INPUT_SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {INPUT_KEY: {"type": "string"}},
    "required": [INPUT_KEY],
    "additionalProperties": False,
}
_KINDS: Final = ("function", "custom")
_WORDS: Final = ("auto", "none", "required")
MAX_OPENING_CHARS: Final = 64
"""Characters before the text: some ten for braces, the key and white space."""

_OPENING: Final = re.compile(r'\s*\{\s*"' + INPUT_KEY + r'"\s*:\s*"')
_DECODABLE: Final = re.compile(
    r'(?:[^"\\]|\\[^u]|\\u(?:[0-9a-fA-F]{4}|(?=[0-9a-fA-F]{0,3}[^0-9a-fA-F])))*+'
)
"""The inside of a string up to its end, or to an escape that is cut. What is no escape matches as well:
it is taken as it is written."""


@dataclass(frozen=True, slots=True)
class ToolName:
    """A tool as its caller knows it."""

    name: str
    namespace: str = ""
    """Empty for a tool without a namespace."""
    is_custom: bool = False


def translate_tools(body: Field, target: Target) -> Json:
    """Write `tools`, and with them `tool_choice` and `parallel_tool_calls`."""
    choice = body["tool_choice"]
    tools, search = list(_iter_tools(body)), _maybe_search(body, target)
    if isinstance(choice.value, dict) and choice.get("type") == "allowed_tools":
        allowed, choice = choice["tools"], choice["mode"]
        tools = _keep_allowed(allowed, tools)
        if not any(is_search(one, target) for one in allowed.read_items()):
            search = None
    if not tools and search is None:
        if choice.value not in (None, "auto", "none"):
            raise choice.refuse("No tool is left that this model's provider can be told to call.")
        return {}
    made: Json = {}
    if tools:
        made["tools"] = [_translate_tool(namespace, tool) for namespace, tool in tools]
        made |= _read_parallel(body["parallel_tool_calls"])
    if choice.value is not None:
        can_search = search is not None and is_search(choice, target)
        made["tool_choice"] = SEARCH_CHOICE if can_search else _translate_choice(choice)
    return add_search(made, search, target)


def read_tool_names(body: Json) -> dict[str, ToolName]:
    """Return what the functions of a translated request are to its caller, by their names."""
    return {
        _flatten(namespace, tool): ToolName(
            tool["name"].read_text(), namespace, is_custom=tool.get("type") == "custom"
        )
        for namespace, tool in _iter_tools(Field(body))
    }


def flatten_name(namespace: str, name: str) -> str:
    """Return the name of a function: always the same for one tool, and never too long."""
    flat = f"{namespace}__{name}" if namespace else name
    if len(flat) <= MAX_NAME_CHARS:
        return flat
    digest = sha256(flat.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{flat[: MAX_NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"


def read_flat_name(call: Field) -> str:
    """Read the function's name of a call or a choice, which has name and namespace apart."""
    namespace = call["namespace"]
    return flatten_name(
        namespace.read_string() if namespace.value else "", call["name"].read_text()
    )


def _iter_tools(body: Field) -> Iterator[tuple[str, Field]]:
    """Give the tools that the caller runs itself, each with its namespace."""
    for declared in _iter_lists(body):
        for tool in declared.read_items():
            kind: object = tool.get("type")
            if kind in _KINDS:
                yield "", tool
            elif kind == "namespace":
                namespace = tool["name"].read_text()
                inner = tool["tools"].read_items()
                yield from ((namespace, one) for one in inner if one.get("type") in _KINDS)


def _iter_lists(body: Field) -> Iterator[Field]:
    """Give the lists of tools: the request's, and those of items that add more."""
    if body.get("tools") is not None:
        yield body["tools"]
    if isinstance(body.get("input"), list):
        for item in body["input"].read_items():
            if isinstance(item.value, dict) and item.get("type") == "additional_tools":
                yield item["tools"]


def _flatten(namespace: str, tool: Field) -> str:
    return flatten_name(namespace, tool["name"].read_text())


def _translate_tool(namespace: str, tool: Field) -> Json:
    function: Json = {"name": _flatten(namespace, tool)}
    description = tool["description"].read_string() if tool.get("description") else ""
    if tool.get("type") == "custom":
        description = "\n\n".join(filter(None, (description, _describe_format(tool["format"]))))
        parameters: Json | None = _INPUT_SCHEMA
    else:
        given = tool["parameters"]
        parameters = None if given.value is None else shape_root(given.read_object())
        if isinstance(tool.get("strict"), bool):  # no root that had to be shaped is strict
            function["strict"] = tool.get("strict") and parameters is given.value
    if description:
        function["description"] = description
    if parameters is not None:
        function["parameters"] = parameters
    return {"type": "function", "function": function}


def _describe_format(form: Field) -> str:
    """Say in words what a grammar demands of the input: a chat function cannot enforce it."""
    if form.value is None or form.get("type") != "grammar":
        return ""
    syntax, definition = form["syntax"].read_text(), form["definition"].read_text()
    return f"`{INPUT_KEY}` must match this {syntax} grammar:\n{definition}"


def _keep_allowed(allowed: Field, tools: list[tuple[str, Field]]) -> list[tuple[str, Field]]:
    """Keep only the tools that may be called, as few chat upstreams support such a choice."""
    wanted = {read_flat_name(one) for one in allowed.read_items() if one.get("type") in _KINDS}
    return [(namespace, tool) for namespace, tool in tools if _flatten(namespace, tool) in wanted]


def _maybe_search(body: Field, target: Target) -> Json | None:
    """Write the options of a search; None without a search, or for one in a cache alone."""
    for declared in _iter_lists(body):
        for tool in declared.read_items():
            if is_search(tool, target) and tool.get("external_web_access") is not False:
                filters = tool["filters"]
                return make_search(tool, tool if filters.value is None else filters, target)
    return None


def _read_parallel(parallel: Field) -> Json:
    if parallel.value is None:
        return {}
    if not isinstance(parallel.value, bool):
        raise parallel.wrong_type("a boolean")
    return {"parallel_tool_calls": parallel.value}


def _translate_choice(choice: Field) -> object:
    """Write which tool is called. Raises BadRequest for a hosted tool, which is left out."""
    if choice.value in _WORDS:
        return choice.value
    if not isinstance(choice.value, dict):
        raise choice.refuse("It must be 'auto', 'none', 'required' or a tool.")
    if choice.get("type") not in _KINDS:
        raise choice["type"].refuse("This model's provider cannot be told to call such a tool.")
    return {"type": "function", "function": {"name": read_flat_name(choice)}}


def read_input(arguments: str) -> str:
    """Read the text of a whole call."""
    decoder = InputDecoder()
    return decoder.feed(arguments) + decoder.close()


class InputDecoder:
    """Takes fragments of arguments, mended; returns the text as far as it can be decoded."""

    __slots__ = ("_buffer", "_buffered_chars", "_ended", "_opened")

    def __init__(self) -> None:
        self._buffer: list[str] = []
        """The fragments that are not decoded: all of them, or an escape that is cut."""
        self._buffered_chars = 0
        self._opened = False
        self._ended = False

    def feed(self, fragment: str) -> str:
        if self._ended:
            return ""
        waited, self._buffered_chars = self._buffered_chars, self._buffered_chars + len(fragment)
        self._buffer.append(fragment)
        if not self._opened and waited > MAX_OPENING_CHARS:
            return ""  # to join and match ever more fragments would take quadratic time
        text = "".join(self._buffer)
        if not self._opened:
            opening = _OPENING.match(text)
            if opening is None:
                return ""
            self._opened = True
            text = text[opening.end() :]
        found = _DECODABLE.match(text)
        assert found is not None  # it matches nothing, too
        rest = text[found.end() :]
        self._buffer, self._buffered_chars = [rest], len(rest)
        self._ended = rest.startswith('"')
        return _decode(found[0])

    def close(self) -> str:
        """Return the rest; if no text was found, all of it, parsed if it is JSON."""
        text = "".join(self._buffer)
        if self._opened:
            return "" if self._ended else _decode(text)
        read = maybe_loads(text.encode())
        if isinstance(read, dict):
            read = read.get(INPUT_KEY)
        return read if isinstance(read, str) else text


def _decode(inside: str) -> str:
    try:
        return str(json.loads(f'"{inside}"', strict=False))
    except ValueError:
        return inside
