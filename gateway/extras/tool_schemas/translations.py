"""The core's translations, with schemas that their upstreams take.

Roots are changed before a translation, which makes each an object with `properties`; all else is changed behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Final

from gateway.dialects.exchanges import Translation
from gateway.dialects.formats import FORMATS
from gateway.dialects.wire.jsonbytes import get_list, get_object
from gateway.dialects.wire.records import CompletionRequest, Json, Target
from gateway.extras.tool_schemas.forms import adapt_schema, is_strict, name_members
from gateway.extras.tool_schemas.roots import shape_root

_PLACES: Final = ("tools", "functions")
"""Fields with tools; the second one is chat's older one."""
_SCHEMAS: Final = ("parameters", "input_schema")
"""A schema's name in chat and in Messages."""


def adapt_translations() -> Mapping[tuple[str, str], Translation]:
    """Return the core's translations, whose requests have adapted schemas."""
    return {
        pair: _adapt(translation, _ADAPTS[pair[1]])
        for pair, translation in FORMATS.translations.items()
    }


def _adapt(translation: Translation, adapt: Callable[[Json], None]) -> Translation:
    translate = translation.translate_request

    @wraps(translate)
    def translate_request(request: CompletionRequest, target: Target) -> Json:
        body = request.body
        edits = {name: [*map(_shape, tools)] for name in _PLACES if (tools := get_list(body, name))}
        if edits:
            request = replace(request, body={**body, **edits})
        made = translate(request, target)
        adapt(made)
        return made

    return replace(translation, translate_request=translate_request)


def _shape(tool: object) -> object:
    if type(tool) is not dict:
        return tool
    # A translation refuses what it does not know, unless it is empty.
    edits: Json = {
        name: shape_root(held) for name in _SCHEMAS if type(held := tool.get(name)) is dict and held
    }
    if type(held := tool.get("function")) is dict:
        edits["function"] = _shape(held)
    return {**tool, **edits}


def _adapt_messages(made: Json) -> None:
    """Adapt the schemas of a messages request, each object of which the translation has made."""
    for tool in get_list(made, "tools"):
        if "input_schema" in tool:
            schema = name_members(tool["input_schema"])
            tool["input_schema"] = adapt_schema(schema) if tool.get("strict") else schema
    if form := get_object(get_object(made, "output_config"), "format"):
        form["schema"] = adapt_schema(form["schema"])


def _adapt_chat(made: Json) -> None:
    """Note in a chat request which schemas OpenAI's strict mode takes."""
    for tool in get_list(made, "tools"):
        function = tool["function"]
        if function.get("strict"):
            function["strict"] = is_strict(function["parameters"])
    if form := get_object(get_object(made, "response_format"), "json_schema"):
        form["strict"] = is_strict(form["schema"])


_ADAPTS: Final = {"messages": _adapt_messages, "chat": _adapt_chat}
"""By the upstream's dialect."""
