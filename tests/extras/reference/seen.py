"""Observes routes that serve: the fields that they read, their replies, and their refusals."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from gateway.dialects.wire.records import Json
from gateway.extras.console.fields import Fields, Query
from gateway.extras.console.routes import ConsoleRequest
from gateway.extras.reference.records import Route
from gateway.extras.reference.shapes import describe, list_kinds, merge
from gateway.ledger.checks import MAX_COUNT
from gateway.ledger.key_records import LIMITS, TermChanges
from tests.support.served import Reply

AMOUNT: Final = {"type": "string", "description": "A decimal amount."}
DAY: Final = {"type": "string", "format": "date"}
TEXT: Final = {"type": "string"}


@dataclass
class Seen:
    """The observations of one route."""

    body: dict[str, Json] = field(default_factory=dict)
    query: dict[str, Json] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)
    """Fields that were asked for as needed."""
    cleared: set[str] = field(default_factory=set)
    """Fields that null clears."""
    sent: list[set[str]] = field(default_factory=list)
    """The fields of the requests that were done."""
    replies: dict[str, Json] = field(default_factory=dict)
    """The replies, by status and content type."""
    refusals: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def write(self) -> Json:
        told: Json = {}
        if self.replies:
            about = min(self.replies)
            told["status"] = int(about[:3])
            if kind := about[4:]:
                told["type"] = kind
                told["reply"] = self.replies[about]
        needed = self.needed.intersection(*self.sent) if self.sent else set()
        body = {
            name: _allow_null(one) if name in self.cleared else one
            for name, one in self.body.items()
        }
        told |= {"query": self.query, "body": body, "required": sorted(needed)}
        told["refusals"] = {code: sorted(self.refusals[code]) for code in sorted(self.refusals)}
        return {name: one for name, one in told.items() if one not in ({}, [])}


def _allow_null(schema: Json) -> Json:
    enum = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **enum}


class Watch:
    """Watches routes."""

    def __init__(self, routes: Collection[Route]) -> None:
        self.seen: dict[str, Seen] = defaultdict(Seen)
        self._patterns = [(one, re.compile(_write_pattern(one.path))) for one in routes]
        # `/accounts/by-name` comes before `/accounts/{id}`.
        self._patterns.sort(key=lambda one: one[0].path.count("{"))

    def find(self, method: str, path: str) -> Route | None:
        path = path.partition("?")[0]
        fits = (one for one, fit in self._patterns if one.method == method and fit.fullmatch(path))
        return next(fits, None)

    def note(self, method: str, path: str, body: bytes | None, reply: Reply) -> None:
        route = self.find(method, path)
        if route is None:
            return
        seen = self.seen[route.name]
        if reply.status >= 400:
            if path.startswith("/console/"):
                seen.refusals[str(reply.status)].add(reply.error["code"])
            return
        kind = reply.headers.get("Content-Type", "").partition(";")[0] if reply.body else ""
        about = f"{reply.status} {kind}".strip()
        known = seen.replies.get(about, {})
        if path == "/openapi.json":
            shape: Json = {"type": "object"}
        else:
            shape = describe(reply.json) if kind == "application/json" else {"type": "string"}
        seen.replies[about] = merge([known, shape])
        if body and body.startswith(b"{"):
            seen.sent.append({*orjson.loads(body)})

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Note each field that a console's handler reads."""

        def make_fields(request: ConsoleRequest) -> Fields:
            made = _NotedFields(request.body)
            made.seen = self._find_seen(request)
            return made

        def make_query(request: ConsoleRequest) -> Query:
            made = _NotedQuery(request.http.query)
            made.seen = self._find_seen(request)
            return made

        monkeypatch.setattr(ConsoleRequest, "fields", property(make_fields))
        monkeypatch.setattr(ConsoleRequest, "query", property(make_query))

    def _find_seen(self, request: ConsoleRequest) -> Seen:
        route = self.find(request.http.method, request.http.path)
        return Seen() if route is None else self.seen[route.name]


def _write_pattern(path: str) -> str:
    parts = re.split(r"\{\w+\}", path)
    return (".+" if path.startswith("/v1/models/") else "[^/]+").join(map(re.escape, parts))


class _NotedFields(Fields):
    seen: Seen

    def text(self, name: str) -> str | None:
        self.seen.body.setdefault(name, TEXT)
        return super().text(name)

    def need_text(self, name: str) -> str:
        self.seen.needed.add(name)
        return super().need_text(name)

    def boolean(self, name: str) -> bool | None:
        self.seen.body[name] = {"type": "boolean"}
        return super().boolean(name)

    def need_choice(self, name: str, words: Any) -> Any:
        self.seen.body[name] = {**TEXT, "enum": [*words]}
        return super().need_choice(name, words)

    def integer(self, name: str, least: int, most: int) -> int | None:
        self.seen.body[name] = {"type": "integer", "minimum": least, "maximum": most}
        return super().integer(name, least, most)

    def need_integer(self, name: str, least: int, most: int) -> int:
        self.seen.needed.add(name)
        return super().need_integer(name, least, most)

    def amount_nano(self, name: str) -> int | None:
        self.seen.body[name] = AMOUNT
        return super().amount_nano(name)

    def need_amount_nano(self, name: str) -> int:
        self.seen.needed.add(name)
        return super().need_amount_nano(name)

    def moment_ms(self, name: str) -> int | None:
        self.seen.body[name] = {**TEXT, "description": "A time with Z or an offset, or a day."}
        return super().moment_ms(name)

    def texts(self, name: str) -> tuple[str, ...] | None:
        self.seen.body[name] = {"type": "array", "items": TEXT}
        return super().texts(name)

    def has(self, name: str) -> bool:
        self.seen.body.setdefault(name, TEXT)
        self.seen.cleared.add(name)
        return super().has(name)

    def terms(self) -> TermChanges:
        for name in LIMITS:
            self.integer(name, 0, MAX_COUNT)
        self.texts("models")
        return super().terms()


class _NotedQuery(Query):
    seen: Seen

    def text(self, name: str) -> str | None:
        self.seen.query.setdefault(name, TEXT)
        return super().text(name)

    def choice(self, name: str, words: Any, default: Any) -> Any:
        self.seen.query[name] = {**TEXT, "enum": [*words], "default": default}
        return super().choice(name, words, default)

    def optional_choice(self, name: str, words: Any) -> Any:
        self.seen.query[name] = {**TEXT, "enum": [*words]}
        return None if self._values.get(name, "").strip() == "" else super().choice(name, words, "")

    def integer(self, name: str, least: int, most: int, default: int) -> int:
        bounds = {"minimum": least, "maximum": most, "default": default}
        self.seen.query[name] = {"type": "integer", **bounds}
        return super().integer(name, least, most, default)

    def day(self, name: str) -> int | None:
        self.seen.query[name] = DAY
        return super().day(name)


# ---- the file ------------------------------------------------------------------------------------

LEAST_SHARED: Final = 4
"""Members of the shapes that have names."""


def write_seen(path: Path, watch: Watch) -> None:
    """Write what was seen; shapes of ours that stand in several places have a name."""
    routes = {name: watch.seen[name].write() for name in sorted(watch.seen)}
    own = {name: told for name, told in routes.items() if "reply" in told and _is_own(name)}
    typed = defaultdict[str, list[Json]](list)
    for told in own.values():
        _note_members(told["reply"], typed)
    for name, told in routes.items():
        if "reply" in told:
            _learn(told["reply"], typed if name in own else {})
    groups: dict[tuple[str, ...], list[tuple[str, Json]]] = defaultdict(list)
    for name, told in own.items():
        for at, shape in _find_objects(told["reply"], _name_reply(name)):
            groups[tuple(sorted(shape["properties"]))].append((at, shape))
    shared: dict[tuple[str, ...], str] = {}
    schemas: dict[str, Json] = {}
    for names, found in groups.items():
        if len(found) > 1 and len(names) >= LEAST_SHARED:
            shared[names] = _choose_name([at for at, _ in found], schemas)
            merged = merge(shape for _, shape in found)
            schemas[shared[names]] = {**merged, "type": "object"}
    for told in own.values():
        told["reply"] = _share(told["reply"], shared, None)
    schemas = {name: _share(one, shared, name) for name, one in sorted(schemas.items())}
    parts = [_write_lines("schemas", schemas), _write_lines("routes", routes)]
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _write_lines(name: str, members: Mapping[str, Json]) -> str:
    lines = (f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in members.items())
    return f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}"


def _is_own(route: str) -> bool:
    """Return whether a reply is ours; others are made by providers."""
    path = route.partition(" ")[2]
    return path.startswith(("/console/", "/v1/key", "/v1/receipts"))


def _note_members(schema: Json, typed: dict[str, list[Json]]) -> None:
    """Note the types that members have in any place."""
    for name, one in schema.get("properties", {}).items():
        if list_kinds(one) != ["null"] and one:
            typed[name].append(one)
    for inner in _list_inner(schema):
        _note_members(inner, typed)


def _learn(schema: Json, typed: Mapping[str, Sequence[Json]]) -> None:
    """Say of members that were null in all replies what they are elsewhere, or else nothing."""
    members = schema.get("properties", {})
    for name, one in members.items():
        if list_kinds(one) != ["null"]:
            continue
        known = merge(typed.get(name, ()))
        if known and not any("properties" in inner for inner in (known, *_list_inner(known))):
            members[name] = deepcopy(merge([known, one]))
        elif name.endswith("_nano") or f"{name}_nano" in members:
            members[name] = {"type": ["integer" if name.endswith("_nano") else "string", "null"]}
        else:
            members[name] = {}
    for inner in _list_inner(schema):
        _learn(inner, typed)


def _list_inner(schema: Json) -> Iterator[Json]:
    yield from schema.get("properties", {}).values()
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield schema[name]


def _find_objects(schema: Json, name: str) -> Iterator[tuple[str, Json]]:
    if "properties" in schema:
        yield name, schema
        for key, one in schema["properties"].items():
            yield from _find_objects(one, key)
    for inner in ("items", "additionalProperties"):
        if inner in schema:
            yield from _find_objects(schema[inner], name)


def _name_reply(route: str) -> str:
    words = [one for one in route.split("/")[1:] if one not in {"console", "api", "v1"}]
    return "_".join(one for one in words if "{" not in one)


def _choose_name(places: Sequence[str], taken: Mapping[str, Json]) -> str:
    """Choose the name of most places, in the singular."""
    singular = (re.sub(r"ies$", "y", re.sub(r"(?<=ch)es$|(?<!ie)s$", "", one)) for one in places)
    most = Counter(singular).most_common(1)[0][0]
    name = "".join(map(str.capitalize, re.split(r"[_\W]+", most)))
    others = (f"{name}{number}" for number in count(2))
    return next(one for one in chain((name,), others) if one not in taken)


def _share(schema: Json, shared: Mapping[tuple[str, ...], str], own: str | None) -> Json:
    """Put the names of shapes in their place, but for the shape `own` itself."""
    name = shared.get(tuple(sorted(schema.get("properties", ()))))
    if name is not None and name != own:
        reference = {"$ref": f"#/components/schemas/{name}"}
        is_null = "null" in list_kinds(schema)
        return {"anyOf": [reference, {"type": "null"}]} if is_null else reference
    shown = dict(schema)
    if "properties" in shown:
        held = shown["properties"].items()
        shown["properties"] = {key: _share(one, shared, None) for key, one in held}
    for inner in ("items", "additionalProperties"):
        if inner in shown:
            shown[inner] = _share(shown[inner], shared, None)
    return shown
