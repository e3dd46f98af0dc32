"""How a stream of Responses begins: see tests/dialects/test_faults.py."""

from __future__ import annotations

from typing import Final

from tests.extras.responses import kit as responses

BEGUN: Final = {
    "responses": responses.frame(
        {"type": "response.created", "response": responses.make_response(status="in_progress")},
        responses.delta("Hi"),
    )
}
