"""The reference as OpenAPI 3.1: the routes that serve, described by the files in `static`.

`static/calls.toml` has a sentence and an example for each route. `static/seen.json` has what the tests saw of
routes that serve: the fields that they read, the shapes of their replies, their refusals.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Final

import orjson

from gateway.base.errors import BadRequest
from gateway.base.process import find_version
from gateway.dialects.wire.base import Caller
from gateway.dialects.wire.billed import BAGS, BILLED
from gateway.dialects.wire.fields import Fields
from gateway.dialects.wire.known import COUNTED
from gateway.dialects.wire.records import Json
from gateway.extension import find_formats
from gateway.extras.reference.curl import write_curl
from gateway.extras.reference.records import Route
from gateway.extras.reference.shapes import describe, merge, probe

STATIC: Final = Path(__file__).with_name("static")
VERSION: Final = "3.1.0"
_SECURITY: Final[Mapping[str, Sequence[str]]] = {
    "open": (),
    "key": ("key", "anthropicKey"),
    "session": ("session",),
    "operator": ("session",),
}
_SCHEMES: Final[Json] = {
    "key": {"type": "http", "scheme": "bearer", "description": "A service key: `sk-ru-…`."},
    "anthropicKey": {
        "type": "apiKey",
        "in": "header",
        "name": "x-api-key",
        "description": "The same key, as Anthropic's SDKs send it.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "gateway_session",
        "description": "The cookie of `POST /console/api/session`. Behind https its name begins with `__Host-`.",
    },
    "token": {"type": "http", "scheme": "bearer", "description": "A script's token: `gwt_…`."},
}
_CONSOLE_ERROR: Final = {
    "error": {"message": "", "code": "", "field": "", "retry_after_seconds": 1, "request_id": ""}
}
_NEEDED: Final = ("message", "code", "request_id")


@cache
def read_calls() -> Mapping[str, Json]:
    """Return what calls.toml says of each route, with its `tag`."""
    groups = tomllib.loads((STATIC / "calls.toml").read_text(encoding="utf-8"))
    return {
        name: {"tag": tag, **call} for tag, calls in groups.items() for name, call in calls.items()
    }


def read_seen() -> Json:
    """Return what was seen: `routes` by name, and the `schemas` that they share."""
    seen: Json = orjson.loads((STATIC / "seen.json").read_bytes())
    return seen


def make_document(routes: Iterable[Route], server: str = "/") -> Json:
    """Make the document of these routes, at this address."""
    seen = read_seen()
    known = {one.name: one for one in routes}
    order = [name for name in read_calls() if name in known]
    paths: dict[str, Json] = {}
    errors: dict[str, Json] = {}
    for name in [*order, *(known.keys() - {*order})]:
        one = known[name]
        facts = seen["routes"].get(name, {})
        paths.setdefault(one.path, {})[one.method.lower()] = _describe_route(one, facts, errors)
    schemas = {**seen["schemas"], **errors}
    used = set(_find_references(paths))
    while more := {name for one in used for name in _find_references(schemas[one])} - used:
        used |= more
    return {
        "openapi": VERSION,
        "info": {
            "title": "LLM gateway",
            "version": find_version(),
            "description": "Amounts are decimal strings, and integers of nano-units (10⁻⁹) under `…_nano`."
            " Times are UTC.",
        },
        "servers": [{"url": server}],
        "paths": paths,
        "components": {
            "securitySchemes": _SCHEMES,
            "schemas": {name: schemas[name] for name in sorted(used)},
        },
    }


def _find_references(held: object) -> Iterator[str]:
    match held:
        case {"$ref": str(name)}:
            yield name.rpartition("/")[2]
        case dict():
            for one in held.values():
                yield from _find_references(one)
        case list():
            for one in held:
                yield from _find_references(one)
        case _:
            pass


def _describe_route(route: Route, facts: Json, errors: dict[str, Json]) -> Json:
    call = read_calls().get(route.name, {})
    described: Json = {
        "operationId": re.sub(r"\W+", "_", route.name.lower()).strip("_"),
        "summary": call.get("does", route.name),
        "tags": [call.get("tag", "Others")],
        "x-access": route.access,
        "security": [{one: []} for one in (*_SECURITY[route.access], *_list_token(route))],
        "parameters": list(_list_parameters(route, call, facts)),
        "responses": _describe_replies(route, facts, errors),
    }
    if route.tokens:
        described["x-token-roles"] = sorted(route.tokens)
    if body := _describe_body(route, call, facts):
        kind = "multipart/form-data" if _is_form(call) else "application/json"
        described["requestBody"] = {
            "required": bool(body.get("required")),
            "content": {kind: {"schema": body, "example": call.get("body", {})}},
        }
    if call:
        described["x-codeSamples"] = [{"lang": "Shell", "source": write_curl(route, call)}]
    return described


def _list_token(route: Route) -> Sequence[str]:
    return ("token",) if route.tokens else ()


def _is_form(call: Json) -> bool:
    return any(str(one).startswith("@") for one in call.get("body", {}).values())


def _list_parameters(route: Route, call: Json, facts: Json) -> Iterator[Json]:
    for name in re.findall(r"\{(\w+)\}", route.path):
        example = call.get("to", {}).get(name, "")
        shown = {} if example.startswith("$") or not example else {"example": example}
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, **shown}
    for name, schema in facts.get("query", {}).items():
        yield {"name": name, "in": "query", "schema": schema}
    if is_idempotent(route, call):
        yield {
            "name": "Idempotency-Key",
            "in": "header",
            "required": True,
            "description": "A value of your own: the same one again does nothing again.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 200},
        }


def is_idempotent(route: Route, call: Json) -> bool:
    return route.idempotent or call.get("idempotent", False)


# ---- bodies --------------------------------------------------------------------------------------


def _describe_body(route: Route, call: Json, facts: Json) -> Json:
    if route.method not in {"POST", "PATCH"}:
        return {}
    if route.callers:
        return _describe_fields(route.callers[0], call.get("body", {}))
    fields = facts.get("body", {})
    if not fields:
        return {}
    body: Json = {"type": "object", "properties": fields, "additionalProperties": False}
    return {**body, "required": needed} if (needed := facts.get("required")) else body


def _describe_fields(caller: Caller, example: Json) -> Json:
    """Describe the request of a dialect: what it checks, and what it carries to other dialects."""
    table = _find_fields(caller)
    properties: Json = {name: {} for name in example}
    for name, check in sorted(table.checks.items(), key=itemgetter(0)):
        if check is not None and check is not COUNTED.get(name) and (found := probe(check)):
            properties[name] = found
    for name in _find_carried(caller.name):
        properties.setdefault(name, {})
    for name in BAGS:
        properties.pop(name, None)
    described: Json = {
        "type": "object",
        "properties": properties,
        "required": [name for name in example if _is_needed(caller, example, name)],
        "description": "Other fields of the provider's API pass.",
    }
    if costly := [name for name in BILLED if name in table.known]:
        names = ", ".join(f"`{one}`" for one in costly)
        described["description"] += f" Refused unless the model has a price for them: {names}."
    return described


def _find_carried(caller: str) -> Iterator[str]:
    for (name, _), one in find_formats().translations.items():
        if name == caller:
            yield from sorted(vars(import_module(one.translate_request.__module__))["CARRIED"])


def _is_needed(caller: Caller, example: Json, name: str) -> bool:
    if str(example[name]).startswith("@"):
        return True  # a file, which is read apart from the fields
    try:
        caller.parse_request(orjson.dumps({key: example[key] for key in example if key != name}))
    except BadRequest:
        return True
    return False


# ---- replies -------------------------------------------------------------------------------------


def _describe_replies(route: Route, facts: Json, errors: dict[str, Json]) -> Json:
    status = facts.get("status", 200)
    replies: Json = {str(status): {"description": "Done."}}
    if kind := facts.get("type"):
        content = {kind: {"schema": facts.get("reply", {"type": "string"})}}
        if route.callers and route.callers[0].may_stream and "stream" in _list_fields(route):
            content["text/event-stream"] = {"schema": {"type": "string"}}
        replies[str(status)]["content"] = content
    if route.access == "open" and not route.path.startswith("/console/"):
        return replies
    name = _add_error(route, errors)
    error = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    for code, names in facts.get("refusals", {}).items():
        said = ", ".join(f"`{one}`" for one in names)
        replies[code] = {"description": f"Refused: {said}.", "content": error}
    replies["default"] = {"description": "Refused, or failed.", "content": error}
    return replies


def _add_error(route: Route, errors: dict[str, Json]) -> str:
    """Add the shape of a route's errors; return its name."""
    if not route.callers:
        name, schema = "ConsoleError", _describe_console_error()
    else:
        schema = _describe_error(route.callers)
        alike = (one for one in errors if errors[one] == schema)
        own = "Any" if len(route.callers) > 1 else route.callers[0].name.capitalize()
        name = next(alike, f"{own}Error")
    errors[name] = schema
    return name


def _list_fields(route: Route) -> Iterable[str]:
    if route.method != "POST":
        return ()
    return _find_fields(route.callers[0]).known


def _find_fields(caller: Caller) -> Fields:
    """Find the table in the module of a caller's class, or of the class that it derives from."""
    modules = (vars(import_module(one.__module__)) for one in type(caller).__mro__)
    fields: Fields = next(one["FIELDS"] for one in modules if "FIELDS" in one)
    return fields


def _describe_error(callers: Sequence[Caller]) -> Json:
    """Describe the error that a caller of one of these dialects gets."""
    sample = BadRequest("", param="model", code="")
    shapes = [describe(orjson.loads(one.render_error(sample, ""))) for one in callers]
    return merge(_loosen(one) for one in shapes)


def _loosen(schema: Json) -> Json:
    """Let `param` and `code` be null, as they are where there is nothing to say."""
    for name, one in schema["properties"]["error"].get("properties", {}).items():
        if name in {"param", "code"}:
            one["type"] = ["string", "null"]
    return schema


def _describe_console_error() -> Json:
    schema = describe(_CONSOLE_ERROR)
    schema["properties"]["error"]["required"] = [*_NEEDED]
    return schema
