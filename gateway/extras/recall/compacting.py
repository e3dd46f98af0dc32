"""`POST /v1/responses/compact`: a conversation comes in, and its compacted form goes out.

The request is sent on as one whose last item is `compaction_trigger`, which asks for the same within a
response. OpenAI's reply has the user's messages, then one item `compaction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.base.errors import UndeliverableReply
from gateway.dialects.wire import fields
from gateway.dialects.wire.jsonbytes import (
    dumps_lenient,
    get_list,
    get_object,
    get_text,
    maybe_loads,
)
from gateway.dialects.wire.records import Json, Reply
from gateway.extras.recall.texts import complete_item, list_given
from gateway.extras.responses.compaction import TRIGGER

_FIELDS: Final = fields.Fields({"previous_response_id": fields.check_string})
_MEMBERS: Final = ("id", "created_at", "usage", "service_tier")
"""The members of a response that are copied to the reply."""


def write_asking(data: bytes) -> bytes:
    """Write the request whose response has the compaction. Raises BadRequest."""
    body = fields.read_body(data, _FIELDS, ())
    given = body.get("input")
    if given is None and body.get("previous_response_id") is not None:
        given = []
    if isinstance(given, str | list):  # any other input is refused later, as in every request
        body["input"] = [*list_given(given), {"type": TRIGGER}]
    body.pop("stream_options", None)
    return fields.dump_request(body | {"stream": False, "store": False})


def find_users(items: Sequence[Json]) -> list[Json]:
    """Return the user's messages."""
    return [one for one in items if one.get("role") == "user" and "content" in one]


def compact_reply(users: Sequence[Json], name: str, reply: Reply) -> None:
    """Write a response as the reply to such a request; `name` is its id if the provider gave none."""
    response = get_object({"": maybe_loads(reply.body)}, "")
    outputs = get_list(response, "output")
    made = [one for one in outputs if type(one) is dict and one.get("type") == "compaction"]
    if not made:  # the caller would take the user's messages alone for the whole conversation
        reply.failure = UndeliverableReply("The provider made no summary of the conversation.")
        return
    told = {member: response[member] for member in _MEMBERS if member in response}
    told["id"] = get_text(response, "id") or name
    kept = [complete_item(one, told["id"], number) for number, one in enumerate(users)]
    reply.body = dumps_lenient(told | {"object": "response.compaction", "output": [*kept, *made]})
