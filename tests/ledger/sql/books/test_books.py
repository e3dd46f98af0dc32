"""Both databases give the same answers, to the type, after the same deeds."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from gateway.ledger.sql.books import alerts
from tests.ledger.sql.books.conftest import Clock
from tests.ledger.sql.books.life import Life
from tests.ledger.sql.books.places import BooksPlace


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_same_life_has_the_same_answers(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    places = (BooksPlace(tmp_path / "gateway.db"), BooksPlace(database))
    places[1].empty()
    answers = []
    for place in places:
        numbers = count()
        monkeypatch.setattr(alerts, "make_alert_id", lambda n=numbers: f"alert_{next(n):08d}")
        clock = Clock()
        with place.open(clock, create=True) as books:
            answers.append(Life(books, clock, seed).run())
    for of_sqlite, of_postgres in zip(*answers, strict=True):
        assert of_postgres == of_sqlite
