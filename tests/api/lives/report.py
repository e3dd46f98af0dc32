"""The results of many lives, counted by the rows of the table of endings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gateway.api.lifecycle import ENDINGS, Case
from tests.api.lives.life import Life, live


@dataclass(slots=True)
class Report:
    """The results of many lives."""

    lives: int = 0
    rows: Counter[int] = field(default_factory=Counter)
    """Counts by the row of `ENDINGS`."""
    broken: list[Life] = field(default_factory=list)

    @property
    def unreached(self) -> list[int]:
        return [row for row in range(len(ENDINGS)) if not self.rows[row]]

    def __str__(self) -> str:
        rows = (f"  row {row}: {self.rows[row]:7}  {_describe(row)}" for row in range(len(ENDINGS)))
        return "\n".join([f"{self.lives} lives", *rows])


def play_lives(first_seed: int, count: int) -> Report:
    report = Report()
    for seed in range(first_seed, first_seed + count):
        life = live(seed)
        report.lives += 1
        if life.case is not None:
            report.rows[_find_row(life.case)] += 1
        if life.log.broken:
            report.broken.append(life)
    return report


def _find_row(case: Case) -> int:
    return next(
        index
        for index, row in enumerate(ENDINGS)
        if all(value in allowed for value, allowed in zip(case, row[:4], strict=True))
    )


def _describe(row: int) -> str:
    endings, gone, phases, delivered, charge, last = ENDINGS[row]
    parts = (
        "/".join(sorted(one.name for one in endings)),
        "/".join(sorted(one.name for one in phases)),
    )
    return f"{parts[0]} gone={set(gone)} {parts[1]} delivered={set(delivered)} -> {charge.name}, {last.name}"
