"""Repairs passing Responses streams of providers that omit what SDKs need (llama.cpp, Lemonade, vLLM).

SDKs assemble a reply by the number of each event, the index and the id of its item, and the events that
announce items and parts. A stream that has all of these passes unchanged. From the first event that lacks
one of them, all events are numbered anew.
"""

from __future__ import annotations

from operator import is_not
from typing import Final

from gateway.dialects.wire.jsonbytes import get_text
from gateway.dialects.wire.records import Json
from gateway.extras.responses.places import ADDED, DONE, KINDS, Places, name_kind
from gateway.extras.responses.replay import replay_item

_PREFIXES: Final = {"function_call": "fc", "message": "msg", "reasoning": "rs"}
"""The prefixes of ids, by the type of item."""
_EMPTY: Final[dict[str, Json]] = {
    "message": {"role": "assistant", "content": []},
    "reasoning": {"summary": []},
}
"""The fields of an unannounced item at its beginning, where they are known."""
_PARTS: Final[dict[str, Json]] = {
    "output_text": {"type": "output_text", "text": "", "annotations": []},
    "refusal": {"type": "refusal", "refusal": ""},
}
"""The empty part that announces a text, by the type of part."""


class StreamMender:
    """Mends the events of one stream, in order, except for those that passed by a template."""

    __slots__ = ("_ids", "_parts", "_places", "_request_id", "is_mending")

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id
        self._places = Places()
        self._ids: dict[int, str] = {}
        """The ids of the items so far, by index."""
        self._parts: set[tuple[int, object]] = set()
        """The parts of messages that have begun."""
        self.is_mending = False
        """Something was missing in an event so far."""

    def mend(self, body: Json, items: list[Json]) -> list[Json]:
        """Return the events to send in place of one. `items`: those of the whole reply, if the event ends it.

        An event that lacks nothing is returned alone, as the same object.
        """
        self.is_mending = self.is_mending or type(body.get("sequence_number")) is not int
        events = [body]
        if type(item := body.get("item")) is dict:
            events = self._mend_item(body, item)
        elif kind := name_kind(body["type"]):
            events = self._mend_part(body, kind)
        elif items:
            events = self._mend_end(body, items)
        self.is_mending = self.is_mending or len(events) > 1 or events[0] is not body
        return events

    def _mend_item(self, body: Json, item: Json) -> list[Json]:
        """Mend an event that has an item: its beginning or its end."""
        where = self._places.find(body)
        is_new, named = where not in self._ids, self._name(where, item)
        self._ids[where] = named["id"]
        if body.get("output_index") != where or named is not item:
            self.is_mending = True
            body = {**body, "output_index": where, "item": named}
        if self.is_mending and is_new and body["type"] == DONE:
            return [*replay_item(where, named)[:-1], body]
        return [body]

    def _mend_part(self, body: Json, kind: str) -> list[Json]:
        """Mend an event of a part of an item, such as a delta."""
        where, part = body.get("output_index"), body["type"].split(".")[1]
        if type(where) is not int or where not in self._ids:
            where = self._places.find(body)
        is_new, identity = where not in self._ids, get_text(body, "item_id")
        identity = identity or self._ids.get(where) or self._make_id(where, kind)
        told: Json = {"output_index": where, "item_id": identity}
        if name := KINDS.get(part, ("", ""))[1]:
            index = body.get(name)
            told[name] = index if type(index) is int else 0
        self._ids.setdefault(where, identity)
        if any(body.get(name) != value for name, value in told.items()):
            self.is_mending = True
            body = {**body, **told}
        before: list[Json] = []
        if self.is_mending and is_new and kind in _EMPTY:
            item = {"id": identity, "type": kind, "status": "in_progress", **_EMPTY[kind]}
            before.append({"type": ADDED, "output_index": where, "item": item})
        if "content_index" in told and (place := (where, told["content_index"])) not in self._parts:
            self._parts.add(place)
            if self.is_mending and part in _PARTS:
                kind = "response.content_part.added"
                before.append({"type": kind, **told, "part": _PARTS[part]})
        return [*before, body]

    def _mend_end(self, body: Json, items: list[Json]) -> list[Json]:
        """Return the end, after the items that only the whole reply has and missing ends of other items."""
        events: list[Json] = []
        for where, item in self._places.list_unsaid(items):
            missing = replay_item(where, self._name(where, item))
            if where not in self._ids:
                events += missing
            elif self.is_mending:
                events.append(missing[-1])
        response = body["response"]
        named = [self._name(where, item) for where, item in enumerate(items)]
        if any(map(is_not, named, items)):
            body = {**body, "response": {**response, "output": named}}
        return [*events, body]

    def _name(self, where: int, item: Json) -> Json:
        """Return an item that has an id."""
        if get_text(item, "id"):
            return item
        return {**item, "id": self._ids.get(where) or self._make_id(where, get_text(item, "type"))}

    def _make_id(self, where: int, kind: str) -> str:
        return f"{_PREFIXES.get(kind, 'item')}_{self._request_id}_{where}"
