"""How a provider of Responses tells usage: see tests/dialects/wire/test_usage.py."""

from __future__ import annotations

from typing import Any, Final

from tests.support.formats import EXCHANGES

Json = dict[str, Any]
RESPONSES: Final = EXCHANGES["responses"]["responses"]
PART: Final = {"type": "output_text", "text": "Yes.", "annotations": []}
SAID: Final = {"id": "msg_1", "type": "message", "role": "assistant", "content": [PART]}
RESPONSE: Final = {"id": "resp_1", "object": "response", "model": "m", "status": "completed"}


def list_response_events(told: Json) -> list[Json]:
    items = [*told.get("output", ()), SAID]
    begun: Json = {**RESPONSE, "status": "in_progress", "output": [], "usage": None}
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        *(
            {"type": f"response.output_item.{end}", "output_index": index, "item": item}
            for index, item in enumerate(items)
            for end in ("added", "done")
        ),
        {"type": "response.completed", "response": {**RESPONSE, **told, "output": items}},
    ]
    return [{**one, "sequence_number": at} for at, one in enumerate(events)]


WAYS: Final[list[Any]] = [
    (
        "responses",
        RESPONSES,
        lambda told: {**RESPONSE, **told, "output": [*told.get("output", ()), SAID]},
    ),
    ("responses", RESPONSES, list_response_events),
]
