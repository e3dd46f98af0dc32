"""How a provider of vectors tells usage: see tests/dialects/wire/test_usage.py."""

from __future__ import annotations

from typing import Any, Final

from tests.support.formats import SERVICES

VECTORS: Final = {
    "object": "list",
    "model": "m",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.25e-7]}],
}
WAYS: Final[list[Any]] = [
    ("embeddings", SERVICES["embeddings"], lambda usage: VECTORS | {"usage": usage}),
    ("embeddings", SERVICES["embeddings"], lambda usage: {"usage": usage} | VECTORS),
]
