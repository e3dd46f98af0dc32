"""Two gateways on one PostgreSQL: a switch that one of them is told of holds at both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.chat import say
from tests.support.extras import need_extra
from tests.support.replies import completion, json_reply, usage
from tests.support.seed import Seed

pytestmark = [pytest.mark.slow, need_extra("postgres")]


async def test_all_nodes_hear_a_switch(tmp_path: Path, postgres_url: str) -> None:
    from tests.extras.postgres.fleet import MODEL, run_fleet

    async with run_fleet(tmp_path, postgres_url, (Seed("rich"),), nodes=2) as fleet:
        key = fleet.callers["rich"].key
        fleet.upstream.always(json_reply(completion("Hello!", usage=usage(10, 5))))
        for way, status in (("off", 400), ("on", 200)):
            ran = await fleet.nodes[0].run("model", way, MODEL)
            assert ran.code == 0, ran.err
            told = [await node.chat(key, say(MODEL, "number 1")) for node in fleet.nodes]
            assert [one.status for one in told] == [status, status]
