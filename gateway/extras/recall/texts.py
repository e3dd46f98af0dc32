"""Requests and replies in the form that is kept, and in the form that callers get."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import orjson

from gateway.base.errors import BadRequest, NotFound, UndeliverableReply
from gateway.dialects.exchanges import MAX_REPLY_ELEMENTS
from gateway.dialects.wire import fields
from gateway.dialects.wire.bounds import limit_elements, refuse_reply
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_object, get_text, maybe_loads
from gateway.dialects.wire.records import Json, Query
from gateway.dialects.wire.sse import parse_event
from gateway.extras.recall.shelves import Kept, Text

WHOLE: Final = frozenset({"completed", "incomplete"})
_OUTPUT: Final = "output"
_PREFIXES: Final = {
    "message": "msg",
    "function_call_output": "fco",
    "custom_tool_call_output": "ctco",
}
"""The prefix of an item's id, by its type; `item` for other types."""
_PLACE: Final = re.compile(r"\binput\[(\d+)\]")
"""Matches the place of an item in an error."""
MAX_LIMIT: Final = 100
"""The most items of one page, as at OpenAI."""
DEFAULT_LIMIT: Final = 20
"""The items of a page if the caller does not say, as at OpenAI."""


def list_given(given: object) -> list[Json]:
    """Return the items of a valid `input`."""
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    assert isinstance(given, list)
    return given


def make_texts(items: Iterable[Text | Json]) -> tuple[Text, ...]:
    return tuple(
        one if isinstance(one, Text) else Text(dumps_lenient(one), get_text(one, "id"))
        for one in items
    )


def write_full(body: Json, inputs: Iterable[Text]) -> bytes:
    """Write a request that refers to kept responses as one that has their items itself."""
    rest = {name: body[name] for name in body if name not in ("input", "previous_response_id")}
    head = fields.dump_request(rest)
    return b'%b,"input":%b}' % (head[:-1], _list(inputs))


def maybe_keep(inputs: Sequence[Text | Json], last: bytes) -> Kept | None:
    """Make the kept form of a reply from its last bytes: JSON, or the event with the whole response.

    None if these are no whole response with an id, for example if the event was too large to be read.
    """
    data = last if last.startswith(b"{") else parse_event(last).data
    try:
        with limit_elements(MAX_REPLY_ELEMENTS, refuse_reply):
            response = maybe_loads(data or b"")
    except UndeliverableReply:
        return None
    if isinstance(response, dict) and "response" in response:
        response = response["response"]
    if not isinstance(response, dict) or get_text(response, "status") not in WHOLE:
        return None
    outputs, name = response.get(_OUTPUT), get_text(response, "id")
    if not name or not isinstance(outputs, list) or not all(type(one) is dict for one in outputs):
        return None
    return Kept(
        name,
        make_texts(inputs),
        make_texts(outputs),
        tuple(
            (member, Text(b"" if member == _OUTPUT else dumps_lenient(value)))
            for member, value in response.items()
        ),
    )


def write_response(kept: Kept) -> bytes:
    members = (
        b"%b:%b" % (orjson.dumps(name), _list(kept.outputs) if name == _OUTPUT else text.data)
        for name, text in kept.members
    )
    return b"{%b}" % b",".join(members)


def write_deleted(response_id: str) -> bytes:
    return orjson.dumps({"id": response_id, "object": "response", "deleted": True})


def write_inputs(kept: Kept, query: Query) -> bytes:
    """Write a page of the items that came before a response. Raises BadRequest, NotFound."""
    named: dict[str, Json] = {}
    for number, text in enumerate(kept.inputs):
        item = complete_item(get_object({"": maybe_loads(text.data)}, ""), kept.id, number, named)
        named[item["id"]] = item
    ids = [*named]
    asked = {name: values[-1] for name, values in query.items()}
    order, limit = asked.get("order", "desc"), asked.get("limit", str(DEFAULT_LIMIT))
    if order not in ("asc", "desc"):
        raise BadRequest("'order' must be 'asc' or 'desc'.", param="order")
    most = int(limit) if limit.isdecimal() and len(limit) <= len(str(MAX_LIMIT)) else 0
    if not 1 <= most <= MAX_LIMIT:
        raise BadRequest(f"'limit' must be a number from 1 to {MAX_LIMIT}.", param="limit")
    if order == "desc":
        ids.reverse()
    if after := asked.get("after"):
        if after not in named:
            raise NotFound("'after' names no item of this list.")
        ids = ids[ids.index(after) + 1 :]
    page = [named[one] for one in ids[:most]]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
    more = {"has_more": len(ids) > len(page)}
    told: Json = {"object": "list", "data": page, "first_id": None, "last_id": None}
    return dumps_lenient(told | ends | more)


def complete_item(item: Json, response_id: str, number: int, taken: Collection[str] = ()) -> Json:
    """Return an item as OpenAI lists it: with id, type and status, and its content in parts."""
    kind, name = get_text(item, "type") or "message", get_text(item, "id")
    if not name or name in taken:  # callers may repeat items, but pages need unique ids (`after`)
        name = f"{_PREFIXES.get(kind, 'item')}_{response_id.removeprefix('resp_')}_{number}"
    told = {"id": name, "type": kind, "status": get_text(item, "status") or "completed"}
    done = {**told, **item, **told}
    content = item.get("content")
    if kind == "message" and isinstance(content, str):
        part = "output_text" if item.get("role") == "assistant" else "input_text"
        extra: Json = {"annotations": []} if part == "output_text" else {}
        done["content"] = [{"type": part, "text": content, **extra}]
    return done


def _list(texts: Iterable[Text]) -> bytes:
    return b"[%b]" % b",".join(one.data for one in texts)


@contextmanager
def renumber(before: int) -> Iterator[None]:
    """Make errors name an item by its place in the caller's request, without the `before` kept items."""

    def move(found: re.Match[str]) -> str:
        place = int(found[1])
        return f"input[{place - before if place >= before else place}]"

    try:
        yield
    except BadRequest as error:
        error.message = _PLACE.sub(move, error.message)
        error.param = None if error.param is None else _PLACE.sub(move, error.param)
        raise
