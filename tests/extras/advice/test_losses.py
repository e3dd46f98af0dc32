"""Models that are sold below their costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.extension import find_added
from tests.support.settings import MODEL, OPENAI, load


def test_a_loss_reaches_what_needs_doing(tmp_path: Path) -> None:
    config = load(tmp_path, f"{OPENAI}{MODEL}cost = {{ input = 2, output = 2 }}\n")
    added: list[Any] = find_added("operations")
    losses = [loss for find in added for loss in find(config)]
    assert [loss[:2] for loss in losses] == [("m", "openai")]
