"""Parts of chat requests and replies that all translations read or write.

Results of tools: text alone in the `tool` message, files in a user message behind it. Web search, which
chat asks for by options beside the tools; on the way to a further dialect these have what chat providers
do not take: domains, a limit of uses, and a choice of the search. Sources, which are chat's annotations:
the pages that a text is based on, with places that count from its first character.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.records import Json, Target
from gateway.dialects.wire.billed import is_open, list_families
from gateway.dialects.wire.fields import Field
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text
from gateway.money import WEB_SEARCH

BLOCK_SEPARATOR: Final = "\n\n"
"""The text between parts that become one string, as their words must not run together."""

FILES_NOTE: Final = "[The images and documents of this result are in the user message below.]"
"""The text in place of files that a tool message, which holds text alone, cannot hold."""


def make_result(identity: str, parts: list[Json], prefix: str = "") -> tuple[Json, list[Json]]:
    """Make the tool message, and the parts that have to go into a user message behind it.

    `prefix` stands in front of the text.
    """
    texts = [str(part["text"]) for part in parts if part["type"] == "text"]
    files = [part for part in parts if part["type"] != "text"]
    if files:
        texts.append(FILES_NOTE)
        files.insert(0, {"type": "text", "text": f"[From the result of tool call {identity}:]"})
    text = prefix + BLOCK_SEPARATOR.join(texts)
    return {"role": "tool", "tool_call_id": identity, "content": text}, files


def pack_parts(parts: list[Json]) -> str | list[Json]:
    """Make a lone text a plain string, which every chat upstream takes."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return str(parts[0]["text"])
    return parts


SEARCH_OPTIONS: Final = "web_search_options"
SEARCH_CHOICE: Final[Json] = {"type": WEB_SEARCH}
"""The `tool_choice` of the search."""
_DOMAINS: Final = ("allowed_domains", "blocked_domains")
_COPIED: Final = ("search_context_size",)
_COPIED_ON: Final = (*_COPIED, "max_uses")


def open_fields(target: Target) -> frozenset[str]:
    """Return the fields that another dialect has a counterpart of where the model has a price for it."""
    return frozenset({SEARCH_OPTIONS}) if is_open(WEB_SEARCH, target) else frozenset()


def is_search(tool: Field, target: Target) -> bool:
    """Return whether another dialect's tool is a web search that the model has a price for."""
    return is_open(WEB_SEARCH, target) and list_families(tool.value) == [WEB_SEARCH]


def make_search(tool: Field, filters: Field, target: Target) -> Json:
    """Write the options of another dialect's search, which has its domains in `filters`.

    Raises BadRequest for domains that a chat provider would search beyond.
    """
    copied = _COPIED_ON if target.is_pivot else _COPIED
    made = {name: tool.get(name) for name in copied if tool.get(name) is not None}
    if (location := tool["user_location"]).value is not None:
        where = {name: said for name, said in location.read_object().items() if name != "type"}
        made["user_location"] = {"type": "approximate", "approximate": where}
    for name in _DOMAINS:
        if (domains := filters[name]).value:
            if not target.is_pivot:
                raise domains.refuse_field()
            made[name] = domains.value
    return made


def add_search(made: Json, options: Json | None, target: Target) -> Json:
    """Add a search to tools and their choice, which chat providers take of functions alone."""
    chosen = made.get("tool_choice")
    if options is not None and chosen != "none":
        made = {**made, SEARCH_OPTIONS: options}
    if not target.is_pivot and ("tools" not in made or chosen == SEARCH_CHOICE):
        made.pop("tool_choice", None)
    return made


def read_location(options: Field) -> Json:
    """Write the place that a search is for as the other dialects have it."""
    location = options["user_location"]
    if location.value is None:
        return {}
    where = location["approximate"]
    said = {} if where.value is None else where.read_object()
    return {"user_location": {"type": "approximate", **said}}


def read_sources(message: Json) -> list[Json]:
    """Read the pages that a message or delta names; files are left out."""
    given = (one for one in get_list(message, "annotations") if isinstance(one, dict))
    return [source for one in given if (source := maybe_source(get_object(one, "url_citation")))]


def maybe_source(held: Json) -> Json | None:
    """Read a page; None for one without an address, or a place in the text."""
    match held:
        case {"start_index": int(start), "end_index": int(end), "url": str(url)}:
            page = {"url": url, "title": get_text(held, "title")}
            return {"start_index": start, "end_index": end, **page}
        case _:
            return None


def move_source(source: Json, chars: int) -> Json:
    """Move the place of a page by `chars`, but not in front of the text."""
    places = {key: max(source[key] + chars, 0) for key in ("start_index", "end_index")}
    return {**source, **places}


def make_annotation(source: Json) -> Json:
    return {"type": "url_citation", "url_citation": source}
