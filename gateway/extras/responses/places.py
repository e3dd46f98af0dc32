"""Finds the item of each event in a Responses stream, even if the upstream leaves out indexes or ids.

An event belongs to an item by these signs, a stronger one before a weaker one: `output_index`, an id,
the type of its item. Items begin with `output_item.added`, in order. `output_item.done` repeats an item.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.wire.jsonbytes import get_object, get_text
from gateway.dialects.wire.records import Json

ADDED: Final = "response.output_item.added"
DONE: Final = "response.output_item.done"
KINDS: Final = {
    "content_part": ("message", "content_index"),
    "custom_tool_call_input": ("custom_tool_call", ""),
    "function_call_arguments": ("function_call", ""),
    "output_text": ("message", "content_index"),
    "reasoning_summary_part": ("reasoning", "summary_index"),
    "reasoning_summary_text": ("reasoning", "summary_index"),
    "reasoning_text": ("reasoning", "content_index"),
    "refusal": ("message", "content_index"),
}
"""The type of the item, and the member with the index in it, by the part of an event's type that names its
content."""


def name_kind(kind: str) -> str:
    """Return the type of the item that an event belongs to, by the event's type; "" if it tells none."""
    part = kind.split(".")[1] if "." in kind else ""
    return part if part.endswith("_call") else KINDS.get(part, ("",))[0]


class Places:
    """The places of the items so far."""

    __slots__ = ("_announced", "_done", "_kinds", "_named")

    def __init__(self) -> None:
        self._kinds: dict[int, str] = {}
        """The type of each item."""
        self._named: dict[str, list[int]] = {}
        """The items by their ids, and by those of their calls, which some upstreams repeat."""
        self._done: set[int] = set()
        self._announced = False
        """The upstream sends `output_item.added`."""

    def find(self, event: Json) -> int:
        """Return the index of the item that an event belongs to. The event may begin a new item."""
        index, kind = event.get("output_index"), get_text(event, "type")
        if type(index) is int and index in self._kinds and kind != DONE:
            return index
        item = get_object(event, "item")
        names = [get_text(event, "item_id"), get_text(item, "id"), get_text(item, "call_id")]
        item_kind = get_text(item, "type") or name_kind(kind)
        if type(index) is not int:
            index = self._free if kind == ADDED else self._guess(names, item_kind, kind)
        self._announced = self._announced or kind == ADDED
        self._kinds.setdefault(index, item_kind)
        for name in filter(None, names):
            if index not in (known := self._named.setdefault(name, [])):
                known.append(index)
        if kind == DONE:
            self._done.add(index)
        return index

    def list_unsaid(self, items: list[Json]) -> list[tuple[int, Json]]:
        """Return the items of a whole reply that are not done, each with its index."""
        unsaid: list[tuple[int, Json]] = []
        seen: dict[str, list[int]] = {}
        for index in sorted(self._kinds):
            seen.setdefault(self._kinds[index], []).append(index)
        for item in items:
            known = seen.get(get_text(item, "type"))
            index = known.pop(0) if known else self._free
            if index not in self._done:
                unsaid.append(
                    (self.find({"type": DONE, "output_index": index, "item": item}), item)
                )
        return unsaid

    @property
    def _free(self) -> int:
        return max(self._kinds, default=-1) + 1

    def _guess(self, names: list[str], item_kind: str, kind: str) -> int:
        """Guess the item of an event without an index: for `done` the first not done, else the last."""
        named = [index for name in names for index in self._named.get(name, ())]
        if any(names) and not named and not self._announced and kind.endswith(".delta"):
            return self._free
        alike = [index for index in sorted(self._kinds) if self._kinds[index] == item_kind]
        for found in (named, alike):
            if waiting := [index for index in found if index not in self._done]:
                return waiting[0] if kind == DONE else waiting[-1]
        if named:
            return named[-1]
        is_repeated = bool(alike) and kind.endswith(".done") and kind != DONE
        return alike[-1] if is_repeated else self._free
