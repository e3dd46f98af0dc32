"""Seeded mutations of valid requests: no 5xx, no hang, nothing left behind.

Here 300, from a seed that is new every day. For more: `python -m tests.long fuzz`.
"""

from __future__ import annotations

import datetime as dt

from tests.api.hostile import KINDS, SERVER, play_fuzz, send_raw
from tests.api.scene import set_stage
from tests.support.client import request
from tests.support.process import CHAT

COUNT = 300


async def test_mutated_requests_do_no_harm() -> None:
    seed = dt.datetime.now(dt.UTC).date().toordinal()
    print("seed:", seed)
    report = await play_fuzz(seed, COUNT)
    assert report.statuses[200] > COUNT / 20, report.statuses
    assert report.statuses[400] > COUNT / 20, report.statuses


async def test_a_caller_who_leaves_before_100_continue_is_no_fault_of_ours() -> None:
    """The 100 cannot be sent to a caller who left, which is not an internal error (seed 1)."""
    async with set_stage(kinds=KINDS, server=SERVER) as stage:
        headers = {
            "Content-Type": "application/json",
            "x-api-key": stage.key,
            "Expect": "100-continue",
            "Content-Length": "5",
        }
        await send_raw(stage, request("POST", CHAT, headers), half_close=True)
