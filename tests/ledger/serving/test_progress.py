"""A start that takes long tells its steps."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from gateway.ledger.opening import open_ledger
from gateway.ledger.serving import ledger as ledgers
from gateway.ledger.sqlite import schema
from tests.ledger.kit import make_place
from tests.long.million import History, fill_previous

SMALL: Final = History(requests=60, days=3, models=3, keys=4, models_per_key=2)


async def test_a_long_start_tells_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is held up by another program's lock until it was told."""
    monkeypatch.setattr(ledgers, "TELL_SECONDS", 0.001)
    monkeypatch.setattr(schema, "BUSY_MS", 60_000)
    path = tmp_path / "gateway.db"
    fill_previous(path, SMALL)
    told: list[str] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        def tell(text: str) -> None:
            told.append(text)
            if "upgrading" in text and other.in_transaction:
                other.execute("ROLLBACK")

        async with open_ledger(path, tell=tell):
            assert "progress" not in {task.get_name() for task in asyncio.all_tasks()}
    step = f"upgrading to version {schema.VERSION} of the schema, for "
    assert any(line.startswith(step) for line in told)


async def test_a_short_start_tells_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    async with open_ledger(make_place(tmp_path).path, tell=told.append):
        assert told == []
