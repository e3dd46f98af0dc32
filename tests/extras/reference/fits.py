"""Whether a reply is as the reference says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from gateway.dialects.wire.records import Json
from gateway.extension import find_extras
from gateway.extras.reference.records import Route
from gateway.extras.reference.shapes import FORMATS, KINDS, list_kinds
from tests import ROOT
from tests.support.served import Reply

IS_WHOLE: Final = {
    *re.findall(r"\(gateway/extras/(\w+)/", (ROOT / "README.md").read_text(encoding="utf-8"))
} <= find_extras().keys()
"""No extra was taken away: README has all of them."""


def find_misfits(document: Json, route: Route, reply: Reply) -> list[str]:
    """List where a reply differs from what the document says of its route."""
    replies = document["paths"][route.path][route.method.lower()]["responses"]
    told = replies.get(str(reply.status))
    if told is None:
        return [f"status {reply.status}: {reply.body[:200]!r}"]
    kind = reply.headers.get("Content-Type", "").partition(";")[0] if reply.body else ""
    content = told.get("content", {})
    if kind not in content and (kind or content):
        return [f"content {kind}, not {[*content]}"]
    if kind != "application/json":
        return []
    return [*_find(document, content[kind]["schema"], reply.json, "")]


def _find(document: Json, schema: Json, value: Any, where: str) -> Iterator[str]:
    if "anyOf" in schema:  # a shape, or null
        if value is not None:
            yield from _find(document, schema["anyOf"][0], value, where)
        return
    if reference := schema.get("$ref"):
        schema = document["components"]["schemas"][reference.rpartition("/")[2]]
    kinds, kind = list_kinds(schema), KINDS[type(value)]
    if kinds and kind not in kinds and (kind, "number" in kinds) != ("integer", True):
        yield f"{where}: {kind}, not {kinds}"
    match value:
        case str() if "format" in schema and not FORMATS[schema["format"]].fullmatch(value):
            yield f"{where}: no {schema['format']}"
        case list():
            for number, one in enumerate(value):
                yield from _find(document, schema.get("items", {}), one, f"{where}[{number}]")
        case dict():
            yield from _find_members(document, schema, value, where)
        case _:
            pass


def _find_members(document: Json, schema: Json, value: dict[str, Any], where: str) -> Iterator[str]:
    known, rest = schema.get("properties"), schema.get("additionalProperties")
    if known is None and rest is None:
        return
    for name in {*schema.get("required", ())} - value.keys():
        yield f"{where}.{name} is missing"
    for name, one in value.items():
        inner = (known or {}).get(name, rest)
        if inner is None:
            yield f"{where}.{name} is unknown"
        else:
            yield from _find(document, inner, one, f"{where}.{name}")
