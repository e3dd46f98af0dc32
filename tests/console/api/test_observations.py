"""How the providers answer, and what was refused: for operators, and for holders their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.admin.kit import add_key, get
from tests.console.kit import API, HOLDER, OPERATOR, Console, open_console
from tests.support.waiting import until

MORE = """
[providers.literal]
dialect = "chat"
base_url = "http://127.0.0.1:1/deep/v1"
api_key = "upstream-secret-0123456789-wxyz"
[models."literal/broken"]
routes = ["literal/broken"]
price = "free"
"""


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path, more=MORE) as console:
        yield console


async def wait_counted(console: Console, *, calls: int = 0, refusals: int = 0) -> None:
    """Wait until so many calls to providers and refusals are written."""

    def are_counted() -> bool:
        with console.open_books() as books:
            seen = books.observations.read_upstream()
            refused = books.observations.read_refusals(None, 0)
        counted = (sum(one.today.calls for one in seen), sum(one.count for one in refused))
        return counted == (calls, refusals)

    await until(are_counted, "the counts")


async def read_providers(console: Console) -> dict[str, Any]:
    listed = await get(console, f"{API}/providers")
    return {one["name"]: one for one in listed["providers"]}


async def test_a_provider_whose_calls_all_fail_is_not_working(console: Console) -> None:
    before = await read_providers(console)
    assert {name: one["state"] for name, one in before.items()} == {
        "demo": "not_asked",
        "vendor": "off",
        "literal": "not_asked",
    }
    secret = await add_key(console)
    assert (await console.complete(secret)).status == 200
    _, failed = [await console.complete(secret, model="literal/broken") for _ in range(2)]
    await wait_counted(console, calls=3)
    after = await read_providers(console)
    assert (after["demo"]["state"], after["demo"]["hour"]) == (
        "working",
        {"calls": 1, "failures": 0},
    )
    literal = after["literal"]
    assert literal["state_text"] == "failing (2 of 2 in the last hour)"
    (model,) = literal["upstream_models"]
    assert (model["model"], model["state"]) == ("broken", "failing")
    failure = model["last_failure"]
    assert failure["request_id"] == failed.headers["x-request-id"]
    assert failure["reason"] == "connect: Connection refused"
    assert failure["url"] == "http://127.0.0.1:1/deep/v1/chat/completions"
    shown = (await get(console, f"{API}/health"))["providers"]
    assert [one["state"] for one in shown] == ["working", "off", "failing"]


async def test_a_pause_and_a_probe_are_told_as_they_are(console: Console) -> None:
    """The breaker opens at the fifth failure; a probe is told only while it is in flight."""
    secret = await add_key(console)
    for _ in range(5):
        await console.complete(secret, model="literal/broken")
    literal = (await read_providers(console))["literal"]
    assert (literal["state"], literal["breaker"]) == ("resting", "open")
    assert literal["upstream_models"][0]["state"] == "resting"
    assert console.gateway is not None
    provider = console.gateway.routes.providers["literal"]
    provider.enter("broken")
    assert (await read_providers(console))["literal"]["state_text"] == "being tried"
    provider.leave("broken", None)
    await wait_counted(console, calls=5)
    assert (await read_providers(console))["literal"]["state"] == "failing"


async def test_refusals_are_shown_to_operators_and_to_their_holder(console: Console) -> None:
    secret = await add_key(console)
    _, refused = [await console.complete(secret, model="no/such") for _ in range(2)]
    await console.complete("sk-ru-" + "x" * 32)
    await wait_counted(console, refusals=3)
    listed = await get(console, f"{API}/refusals")
    assert listed["count"] == 3
    by_account = {one["account"]: one for one in listed["refusals"]}
    assert set(by_account) == {HOLDER, None}
    mine = by_account[HOLDER]
    assert (mine["code"], mine["model"], mine["count"]) == ("model_not_found", "", 2)
    assert mine["last_request_id"] == refused.headers["x-request-id"]
    chosen = await get(console, f"{API}/refusals?account={HOLDER}&period=today")
    assert chosen["refusals"] == [mine]
    reply = await console.get(f"{API}/overview", as_=HOLDER)
    assert reply.json["refused_today"] == [
        {name: mine[name] for name in ("code", "model", "count", "last")}
    ]
    assert (await get(console, f"{API}/overview"))["refused_today"] == [], "the operator's own"


async def test_a_wrong_choice_is_refused(console: Console) -> None:
    wrong = await console.get(f"{API}/refusals?period=ever", as_=OPERATOR)
    assert wrong.refusal == (400, "invalid_field", "period")
    nobody = await console.get(f"{API}/refusals?account=nobody", as_=OPERATOR)
    assert nobody.status == 404
    assert (await console.get(f"{API}/refusals", as_=HOLDER)).status == 404
