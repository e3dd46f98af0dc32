"""Web search as chat asks for it: by options beside the tools.

On the way to a further dialect they have what chat providers do not take: domains, a limit of uses, and
a choice of the search.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.records import Json, Target
from gateway.dialects.wire.billed import is_open, list_families
from gateway.dialects.wire.fields import Field
from gateway.money import WEB_SEARCH

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
