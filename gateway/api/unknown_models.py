"""Say why there is no such model: it is switched off, or its name is mistyped.

A key learns only of models that it may use.
"""

from __future__ import annotations

import heapq
from typing import Final

from gateway.api.state import Gateway
from gateway.ledger import Key

MAX_NAME_CHARS: Final = 100
"""A longer name gets no suggestion: to compare texts takes the square of their length."""
MAX_COMPARED: Final = 16
"""Names that are compared in full: those with the most letters in common with the one asked for."""


def find_problem(gateway: Gateway, key: Key, name: str) -> str:
    """Return why the gateway does not serve the model, as far as this key may know."""
    models = gateway.routes.models
    if name not in models and name in gateway.config.models and key.allows(name):
        return "is switched off here: its provider is not set up."
    known = [one for one in models if key.allows(one)] if len(name) <= MAX_NAME_CHARS else []
    similar = find_similar(name, known)
    return f"does not exist here; did you mean '{similar}'?" if similar else "does not exist here."


def find_similar(name: str, known: list[str]) -> str | None:
    """Return the known name that was probably meant, if there is one."""
    import difflib  # 0.2 MiB, for errors only

    wanted = name.lower()
    letters = set(wanted)
    nearest = heapq.nsmallest(
        MAX_COMPARED,
        (one for one in known if len(one) <= MAX_NAME_CHARS),
        key=lambda one: len(letters.symmetric_difference(one.lower())),
    )
    by_text = {one.lower(): one for one in nearest}
    return next((by_text[one] for one in difflib.get_close_matches(wanted, by_text, n=1)), None)
