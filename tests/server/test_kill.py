"""A gateway killed at random instants loses no reply and charges none twice.

The full run is `python -m tests.long kill --kills 200`.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.long import killing
from tests.long.killing import Figures, Load, Record, Row, judge, used
from tests.support.rows import each_row

KILLS = 5


@pytest.mark.slow
async def test_kills_at_random_instants_lose_and_double_nothing(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    figures = await killing.run(tmp_path, kills=KILLS, seed=seed, streams=20, others=20)
    print(figures)
    assert figures.ok, (figures.lost, figures.doubled, figures.wrong)
    assert figures.kills == KILLS
    assert figures.complete > 0
    assert figures.interrupted > 0


def posted(number: int, /, **changes: Any) -> Row:
    cost = used(number).cost_nano
    whole = Row(
        id=f"req_{number}", number=number, state="posted", outcome="complete",
        cost_nano=cost, estimated=0, charges=1, charged_nano=cost,
    )  # fmt: skip
    return replace(whole, **changes)


VOIDED: dict[str, Any] = {
    "state": "voided", "number": 0, "cost_nano": 0, "charged_nano": 0, "charges": 0,
}  # fmt: skip


@each_row(
    ("rows", "bad"),
    [
        ([posted(1)], None),
        ([posted(1), posted(2, **VOIDED, outcome="interrupted")], None),
        ([], "lost"),
        ([posted(1, **VOIDED, outcome="interrupted")], "lost"),
        ([posted(1, number=2)], "lost"),
        ([posted(1), posted(1, id="req_2")], "doubled"),
        ([posted(1, charges=2)], "doubled"),
        ([posted(1, cost_nano=5)], "wrong"),
        ([posted(1), posted(2, **VOIDED, outcome="pending")], "wrong"),
    ],
)
def test_the_harness_finds_what_is_wrong(rows: list[Row], bad: str | None) -> None:
    load = Load.__new__(Load)
    load.records = [Record(1, stream=False, request_id="req_1", status=200, complete=True)]
    balance = killing.CREDIT_NANO - sum(used(row.number).cost_nano for row in rows if row.number)
    figures = Figures()
    judge(load, rows, balance, figures)
    assert figures.ok is (bad is None)
    assert bad is None or getattr(figures, bad)
    judge(load, rows, balance + 1, figures)
    assert "balance" in figures.wrong[-1]
