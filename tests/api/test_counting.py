"""How many requests that count tokens may be in flight: of one account, and of all."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from gateway.api.counting import MAX_COUNTS, MAX_OWN_COUNTS, Counting
from gateway.errors import Overloaded, RateLimited


def test_one_account_counts_few_at_once_and_others_go_on() -> None:
    counting = Counting()
    with ExitStack() as counts:
        for _ in range(MAX_OWN_COUNTS):
            counts.enter_context(counting.admit(1))
        with pytest.raises(RateLimited), counting.admit(1):
            pass
        with counting.admit(2):
            pass
    with counting.admit(1):
        pass


def test_all_accounts_together_count_few_at_once() -> None:
    counting = Counting()
    with ExitStack() as counts:
        for account in range(MAX_COUNTS):
            counts.enter_context(counting.admit(account))
        with pytest.raises(Overloaded), counting.admit(MAX_COUNTS):
            pass
    with counting.admit(MAX_COUNTS):
        pass


def test_a_count_that_fails_gives_its_place_back() -> None:
    counting = Counting()
    for _ in range(MAX_COUNTS + 1):
        with pytest.raises(OSError, match="fails"), counting.admit(1):
            raise OSError("fails")
