"""Limits of requests that count tokens. They cost nothing, so neither money nor rates bound them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gateway.errors import Overloaded, RateLimited

MAX_COUNTS: Final = 32
"""In flight at once: each can hold a body, a provider's connection and a parse of some 10 ms."""
MAX_OWN_COUNTS: Final = 8
"""Requests of one account: an agent counts one conversation at a time."""


class Counting:
    """The counts in flight, by account id."""

    __slots__ = ("_in_flight",)

    def __init__(self) -> None:
        self._in_flight: Counter[int] = Counter()

    @contextmanager
    def admit(self, account_id: int) -> Iterator[None]:
        """Count one while it lasts. Raises RateLimited, Overloaded."""
        if self._in_flight[account_id] >= MAX_OWN_COUNTS:
            raise RateLimited(
                f"This account may count the tokens of {MAX_OWN_COUNTS} requests at once."
            )
        if self._in_flight.total() >= MAX_COUNTS:
            raise Overloaded(
                "The gateway counts as many tokens as it may at once. Try again shortly."
            )
        self._in_flight[account_id] += 1
        try:
            yield
        finally:
            self._in_flight[account_id] -= 1
            if not self._in_flight[account_id]:
                del self._in_flight[account_id]
