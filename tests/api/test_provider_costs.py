"""Costs of whole requests: what the provider bills is recorded, and callers do not see it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.api.scene import RICH
from tests.ledger.kit import query
from tests.support import running as runs
from tests.support.chat import say
from tests.support.config import PATIENT, Kind, Places
from tests.support.replies import completion, json_reply, sse_reply, stream_chunks, usage
from tests.support.rows import each_row
from tests.support.running import Running
from tests.support.stage import Stage

COST: Final = """
cost = { input = 0.10, output = 0.30 }
cost_when = [{ service_tier = "priority", cost = { input = 1, output = 3 } }]
price_when = [{ service_tier = "priority", price = { input = 2, output = 4 } }]
"""
KINDS: Final = {
    "costly": Kind(("alpha",), 1, PATIENT, model_options=COST),
    "unknown": Kind(("alpha",), 1, PATIENT),
}
BILL: Final = {"cost": 4.12e-05, "is_byok": False, "cost_details": {"upstream_inference_cost": 1}}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, places: Places) -> Iterator[Running]:
    started = runs.start(tmp_path_factory.mktemp("costs"), places, seeds=RICH, kinds=KINDS)
    yield started
    started.prove_books()
    started.gateway.stop()


@each_row("stream", [False, True])
@each_row(
    ("model", "tier", "bill", "costs"),
    [
        ("costly", None, {}, (11 * 100 + 7 * 300, None)),
        ("costly", "priority", BILL, (11 * 1000 + 7 * 3000, 41_200)),
        ("unknown", None, BILL, (None, 41_200)),
        ("unknown", None, {}, (None, None)),
    ],
)
async def test_the_cost_of_a_request_is_recorded(
    stage: Stage,
    model: str,
    tier: str | None,
    bill: dict[str, Any],
    costs: tuple[int | None, int | None],
    *,
    stream: bool,
) -> None:
    """Computed from its tokens at the cost of the tier that was served, and as reported."""
    told = usage(11, 7) | bill
    served = {} if tier is None else {"service_tier": tier}
    whole = completion("Hi", usage=told) | served
    chunks = [one | served for one in stream_chunks(["Hi"], told)]
    stage.alpha.play(sse_reply(chunks) if stream else json_reply(whole))
    body = say(f"{model}/0", stream=stream) | served
    if stream:
        body["stream_options"] = {"include_usage": True}
    reply = await stage.chat(body)
    assert reply.status == 200
    columns = "SELECT provider_cost_nano, reported_cost_nano FROM requests WHERE id = "
    row = query(stage.running.gateway.database, f"{columns}'{reply.request_id}'")
    assert row == [costs]
    assert b'"total_tokens":18' in reply.body.replace(b" ", b"")
    for name in BILL:
        assert json.dumps(name).encode() not in reply.body, "callers pay the operator's prices"
    receipt = await stage.gateway.ask("GET", f"/v1/receipts/{reply.request_id}", key=stage.key)
    assert [name for name in receipt.json if "provider_cost" in name or "reported" in name] == []
