"""How a provider of ranks tells usage: see tests/dialects/wire/test_usage.py."""

from __future__ import annotations

from typing import Any, Final

from tests.support.formats import SERVICES

RANKS: Final = {"id": "r", "results": [{"index": 0, "relevance_score": 0.9}]}
WAYS: Final[list[Any]] = [("rerank", SERVICES["rerank"], lambda told: RANKS | told)]
