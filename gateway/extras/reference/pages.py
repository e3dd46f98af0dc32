"""The reference as Markdown: `api.md`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from gateway.dialects.wire.records import Json

_WIDTH: Final = 104
"""Characters of a line, as in the other documents."""
_OTHERS: Final = (
    "The provider's other fields pass, but those that change its bill only if the model has a price for"
    " them ([charges](../../docs/charges.md))."
)
_MOST: Final = 10**12
"""The largest bound that is shown: a larger one is only that of the ledger's integers."""
_WHO: Final = {
    "key": "a key",
    "token": "a script's token",
    "session": "who is signed in",
    "operator": "an operator who is signed in",
}


def write_page(document: Json) -> str:
    """Write each call with a curl, and the shapes that replies share."""
    lines: list[str] = []
    for tag, calls in groupby(_list_calls(document), lambda one: one[2]["tags"][0]):
        lines += [f"## {tag}", ""]
        for method, path, call in calls:
            lines += _write_call(method, path, call)
    lines += ["## Shapes", ""]
    for name, schema in document["components"]["schemas"].items():
        lines += [*_fill(f"`{name}`: {_show(schema)}"), ""]
    return "\n".join(lines).rstrip("\n")


def _list_calls(document: Json) -> Iterator[tuple[str, str, Json]]:
    """List the calls by tag, the tags in the order of their first calls."""
    calls = [
        (method.upper(), path, call)
        for path, methods in document["paths"].items()
        for method, call in methods.items()
    ]
    tags = list(dict.fromkeys(call["tags"][0] for *_, call in calls))
    yield from sorted(calls, key=lambda one: tags.index(one[2]["tags"][0]))


def _write_call(method: str, path: str, call: Json) -> Iterator[str]:
    yield from (f"### {method} {path}", "", *_fill(call["summary"]), "")
    yield from ("```sh", call["x-codeSamples"][0]["source"], "```", "")
    lines = [_say_who(call), *_say_query(call), *_say_body(call), *_say_replies(call)]
    for line in lines:
        yield from _fill(f"- {line}", "  ")
    yield ""


def _say_who(call: Json) -> str:
    schemes = [name for one in call["security"] for name in one]
    if not schemes:
        return "For everybody."
    roles = call.get("x-token-roles", [])
    access = "operator" if call["x-access"] == "operator" else schemes[0]
    token = f", or a script's token ({', '.join(roles)})" if roles else ""
    return f"For {_WHO[access]}{token}."


def _say_query(call: Json) -> Iterator[str]:
    queries = [one for one in call["parameters"] if one["in"] == "query"]
    if queries:
        yield f"Query: {', '.join(_show_query(one['name'], one['schema']) for one in queries)}."
    if any(one["name"] == "Idempotency-Key" for one in call["parameters"]):
        yield "Header `Idempotency-Key`: a value of your own. The same one again does nothing again."


def _show_query(name: str, schema: Json) -> str:
    default = f", else {schema['default']}" if "default" in schema else ""
    return f"`{name}` ({_show(schema)}{default})"


def _say_body(call: Json) -> Iterator[str]:
    for kind, content in call.get("requestBody", {}).get("content", {}).items():
        schema = content["schema"]
        form = "Form" if kind.startswith("multipart") else "Body"
        more = f" {_OTHERS}" if "description" in schema else ""
        yield f"{form}: {_show(schema)}.{more}"


def _say_replies(call: Json) -> Iterator[str]:
    refused = []
    for status, reply in call["responses"].items():
        content = reply.get("content", {})
        if status == "default":
            continue
        if reply["description"].startswith("Refused"):
            refused.append(f"{status} {reply['description'].removeprefix('Refused: ').rstrip('.')}")
            continue
        shown = [
            _show(one["schema"]) if kind == "application/json" else f"`{kind}`"
            for kind, one in content.items()
        ]
        yield f"Reply {status}: {' or '.join(shown) or 'nothing'}."
    if refused:
        yield f"Refused: {'; '.join(refused)}."


# ---- shapes --------------------------------------------------------------------------------------


def _show(schema: Json) -> str:
    """Write a schema in a line; `?` behind a name: it may be absent."""
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "anyOf" in schema:
        return " or ".join(map(_show, schema["anyOf"]))
    if "enum" in schema:
        return " | ".join("null" if one is None else one for one in schema["enum"])
    kind = schema.get("type", "any")
    kinds = kind if isinstance(kind, list) else [kind]
    return " or ".join(_show_kind(one, schema) for one in kinds)


def _show_kind(kind: str, schema: Json) -> str:
    match kind:
        case "object" if "additionalProperties" in schema and "properties" not in schema:
            return f"{{NAME: {_show(schema['additionalProperties'])}}}"
        case "object" if "properties" in schema:
            needed = schema.get("required", ())
            members = (
                f"{name}{'' if name in needed else '?'}{_show_member(one)}"
                for name, one in schema["properties"].items()
            )
            return f"{{{', '.join(members)}}}"
        case "array":
            return f"[{_show(schema.get('items', {}))}]"
        case "string" if schema.get("format"):
            return {"date-time": "time", "date": "day"}[schema["format"]]
        case "integer" if schema.get("maximum", _MOST) < _MOST:
            return f"{schema['minimum']:,} to {schema['maximum']:,}"
        case _:
            return kind


def _show_member(schema: Json) -> str:
    shown = _show(schema)
    return "" if shown in {"string", "any"} else f": {shown}"


def _fill(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
