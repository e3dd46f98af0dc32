"""A holder's requests: odd filters find nothing, and nobody sees those of others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.console.history import open_history, read_csv
from tests.console.kit import API, OTHER, Console


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_history(tmp_path) as console:
        yield console


@pytest.mark.parametrize("sent", ["%00", "%FF", "%ED%A0%80", "%22", "'", "x" * 2000])
async def test_odd_filters_find_nothing(console: Console, sent: str) -> None:
    for name in ("request_id", "key", "model"):
        reply = await console.get(f"{API}/activity?{name}={sent}")
        assert (reply.status, reply.json["count"], reply.json["calls"]) == (200, 0, [])


async def test_what_another_account_did_is_not_found(console: Console) -> None:
    theirs = (await console.get(f"{API}/activity", as_=OTHER)).json["calls"]
    assert len(theirs) == 1
    for query in (f"request_id={theirs[0]['request_id']}", f"key={theirs[0]['key']}"):
        assert (await console.get(f"{API}/activity?{query}")).json["count"] == 0
        assert (await console.get(f"{API}/activity?{query}", as_=OTHER)).json["count"] == 1
        assert read_csv(await console.get(f"{API}/activity.csv?{query}")) == []
