"""Seeded mutations of valid requests: no 5xx, no hang, nothing left behind, the next request works.

Here 300, from a seed that is new every day; as many as wanted: `long.py fuzz`.
"""

from __future__ import annotations

import datetime as dt

from hostile_kit import KINDS, SERVER, play_fuzz, send_raw
from scene_kit import set_stage
from support.client import request
from support.process import CHAT

COUNT = 300


async def test_mutated_requests_do_no_harm() -> None:
    seed = dt.datetime.now(dt.UTC).date().toordinal()
    print("seed:", seed)
    report = await play_fuzz(seed, COUNT)
    assert report.statuses[200] > COUNT / 20, report.statuses
    assert report.statuses[400] > COUNT / 20, report.statuses


async def test_a_caller_who_leaves_before_100_continue_is_no_fault_of_ours() -> None:
    """Found by seed 1: there is nobody to say 100 to, which is not an internal error."""
    async with set_stage(kinds=KINDS, server=SERVER) as stage:
        headers = {
            "Content-Type": "application/json",
            "x-api-key": stage.key,
            "Expect": "100-continue",
            "Content-Length": "5",
        }
        await send_raw(stage, request("POST", CHAT, headers), half_close=True)
