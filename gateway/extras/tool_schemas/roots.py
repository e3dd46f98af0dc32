"""Schemas of tools whose root is one plain object.

OpenAI and Anthropic refuse a tool, and so the whole request, if its root is a union, a reference, or of
several types. Tools of MCP servers have such roots. The alternatives become one object with the members of
all, and its description tells the conditions that this loses. OpenAI, unlike Anthropic, also requires
`properties` in the root and `items` in arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import is_
from typing import Any, Final

from gateway.dialects.wire.jsonbytes import dumps_lenient, get_list, get_object
from gateway.dialects.wire.records import Json
from gateway.extras.tool_schemas.forms import DEFINITIONS, add_description

_UNIONS: Final = ("oneOf", "anyOf")
_REFUSED: Final = frozenset({"allOf", "anyOf", "const", "enum", "not", "oneOf"})
"""Keywords that no root may have."""
_BRANCHED: Final = _REFUSED | {"$ref"}
_NAMED: Final = frozenset({*DEFINITIONS, "patternProperties", "properties"})
"""Keywords whose members are schemas by name."""
_VALUES: Final = frozenset({"const", "default", "enum", "example", "examples"})
"""Keywords that hold values, which may look like schemas."""
_REFERENCE: Final = re.compile(r"#/(\$defs|definitions)/([^/]+)")
_MAX_LEVELS: Final = 8
"""Levels of nested alternatives that are combined: callers choose the depth, and each level multiplies the
work. Deeper alternatives are left out."""
_MAX_BRANCHES: Final = 256
"""Alternatives of a root, all levels together; more are left out."""
_MAX_DEPTH: Final = 64
"""Levels of a schema that are searched for arrays: schemas of tools have about ten."""
_MAX_TOLD_NAMES: Final = 256
"""Names of members in the description of one union: more would not fit into it."""
_MAX_ALTERNATIVES: Final = 32
"""Alternatives of one member: each further one is compared with all before."""
_MAX_TOLD_CHARS: Final = 2000
"""Characters of a description of alternatives: the model reads it with every request."""


def shape_root(schema: Json) -> Json:
    """Return a schema whose root is one plain object with `properties`, and whose arrays have `items`.

    Nearly all schemas are returned as they are.
    """
    made = schema
    if schema.get("type") != "object" or not _BRANCHED.isdisjoint(schema):
        made = _unite_root(schema)
    elif type(schema.get("properties")) is not dict:
        made = {**schema, "properties": {}}
    return _give_items(made) if b'"array"' in dumps_lenient(made) else made


def _unite_root(schema: Json) -> Json:
    root = _Root(schema)
    made = {key: value for key, value in schema.items() if key not in _BRANCHED}
    made |= {"type": "object", "properties": root.properties}
    if root.required:
        made["required"] = root.required
    elif "required" in made:
        del made["required"]
    if root.told:
        add_description(made, " ".join(root.told))
    return made


def _give_items(schema: Json, level: int = 0) -> Json:
    """Return a schema in which all arrays have `items`; the same object if they had them."""
    made = {
        name: one if name in _VALUES else _give_inner_items(one, level + 1, named=name in _NAMED)
        for name, one in schema.items()
    }
    kind = schema.get("type")
    if "items" not in schema and (kind == "array" or (type(kind) is list and "array" in kind)):
        return {**made, "items": {}}
    return schema if all(map(is_, made.values(), schema.values())) else made


def _give_inner_items(held: Any, level: int, *, named: bool = False) -> Any:
    if level < _MAX_DEPTH and type(held) is dict:
        if not named:
            return _give_items(held, level)
        members = {name: _give_inner_items(one, level + 1) for name, one in held.items()}
        return held if all(map(is_, members.values(), held.values())) else members
    if level < _MAX_DEPTH and type(held) is list:
        parts = [_give_inner_items(one, level + 1) for one in held]
        return held if all(map(is_, parts, held)) else parts
    return held


class _Root:
    """The members of all alternatives of a root."""

    __slots__ = ("_definitions", "_left", "_seen", "properties", "required", "told")

    def __init__(self, schema: Json) -> None:
        self._definitions = {name: get_object(schema, name) for name in DEFINITIONS}
        self._seen: set[str] = set()
        """References that were followed: each is followed once, as definitions may refer to each other."""
        self._left = _MAX_BRANCHES
        self.properties: Json = {}
        self.told: list[str] = []
        """Sentences for the description, about conditions that the combined object loses."""
        self.required = self._add(schema, 0)

    def _add(self, schema: Json, level: int) -> list[str]:
        """Add the members of a schema; return those that are required."""
        for name, one in get_object(schema, "properties").items():
            held = self.properties.get(name, one)
            self.properties[name] = one if held == one else _unite(held, one)
        required = [name for name in get_list(schema, "required") if isinstance(name, str)]
        for branch in self._list_common(schema, level):
            required += self._add(branch, level + 1)
        for union in _UNIONS:
            branches = self._list_branches(schema, union)
            if level < _MAX_LEVELS and branches:
                required += self._add_union(union, branches, level)
        for name in ("not", "enum", "const"):
            if level == 0 and name in schema:
                self._tell(f"{name}: {dumps_lenient(schema[name]).decode()}")
        return list(dict.fromkeys(required))

    def _list_common(self, schema: Json, level: int) -> Iterator[Json]:
        """Yield the schemas that apply together with this one: its reference and its `allOf`."""
        if level >= _MAX_LEVELS:
            return
        reference = str(schema.get("$ref"))
        if reference not in self._seen and (followed := self._maybe_follow(schema)) is not None:
            self._seen.add(reference)
            yield followed
        yield from self._list_branches(schema, "allOf")

    def _list_branches(self, schema: Json, name: str) -> list[Json]:
        branches = [one for one in get_list(schema, name) if isinstance(one, dict)]
        kept = branches[: self._left]
        self._left -= len(kept)
        return kept

    def _maybe_follow(self, schema: Json) -> Json | None:
        """Return the definition that a schema refers to; None if it refers to none."""
        found = _REFERENCE.fullmatch(str(schema.get("$ref")))
        return get_object(self._definitions[found[1]], found[2]) if found else None

    def _add_union(self, union: str, branches: list[Json], level: int) -> list[str]:
        """Add the members of alternatives; only what all of them require is required."""
        needed = [self._add(branch, level + 1) for branch in branches]
        if 0 < sum(map(len, needed)) <= _MAX_TOLD_NAMES and len(branches) > 1:
            word = "Exactly one" if union == "oneOf" else "At least one"
            told = "; ".join(map(self._name_members, needed, branches))
            self._tell(f"{word} of these sets of members is needed: {told}.")
        common = set(needed[0]).intersection(*needed[1:])
        return [name for name in needed[0] if name in common]

    def _name_members(self, names: list[str], branch: Json) -> str:
        """Name the members that an alternative needs, with values where only one is possible."""
        properties = get_object(self._maybe_follow(branch) or branch, "properties")
        told = [_name_member(name, properties.get(name)) for name in names]
        return f"({', '.join(told) or 'nothing'})"

    def _tell(self, text: str) -> None:
        if sum(map(len, self.told)) + len(text) <= _MAX_TOLD_CHARS:
            self.told.append(text)


def _name_member(name: str, schema: object) -> str:
    match schema:
        case {"const": value} | {"enum": [value]}:
            return f"{name} = {dumps_lenient(value).decode()}"
        case _:
            return name


def _unite(held: object, one: object) -> object:
    """Add an alternative to a member's schema. With too many, return a schema that takes anything."""
    match held:
        case {"anyOf": [*others], **rest} if not rest:
            if one in others:
                return held
            return {"anyOf": [*others, one]} if len(others) < _MAX_ALTERNATIVES else {}
        case dict() if not held:
            return held
        case _:
            return {"anyOf": [held, one]}
