"""Rate limits of keys and accounts, on a clock that the tests set."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.limits import MAX_COUNTS, MAX_OWN_COUNTS, Bucket, Counting, Rates
from gateway.dialects.exchanges import CALLERS
from gateway.errors import Overloaded, RateLimited
from tests.support.fuzz import fuzz

EPSILON = 1e-6
"""Levels are floats, so a millionth of a request counts as none."""


def rates(
    requests: int = 0,
    tokens: int = 0,
    concurrency: int = 0,
    *,
    now: float = 0.0,
    above: Rates | None = None,
    owner: Literal["key", "account"] = "key",
) -> Rates:
    made = Rates(owner, above)
    made.set_limits(
        requests_per_minute=requests, tokens_per_minute=tokens, concurrency=concurrency, now=now
    )
    return made


def admit(one: Rates, now: float) -> None:
    one.check(now)
    one.admit()


def admits(key: Rates, now: float) -> bool:
    try:
        admit(key, now)
    except RateLimited:
        return False
    key.release()
    return True


steps = st.lists(st.floats(0, 90, allow_nan=False), min_size=1, max_size=120)


@fuzz(150)
@given(st.integers(1, 40), steps)
def test_never_more_than_the_limit_and_the_refill_are_admitted(
    limit: int, gaps: list[float]
) -> None:
    """In any interval at most `limit` plus the refill is admitted."""
    key = rates(requests=limit)
    now = 0.0
    admitted: list[float] = []
    for gap in gaps:
        now += gap / limit
        while admits(key, now) and len(admitted) < 500:
            admitted.append(now)
    for first, since in enumerate(admitted):
        for last in range(first, len(admitted)):
            refill = (admitted[last] - since) * limit / 60
            assert last - first + 1 <= limit + refill + EPSILON


@fuzz(150)
@given(st.integers(1, 10_000), st.floats(0, 1e6, allow_nan=False))
def test_a_minute_of_rest_fills_the_bucket(limit: int, start: float) -> None:
    key = rates(requests=limit, now=start)
    assert key.requests is not None
    key.requests.take(limit)
    assert not admits(key, start)
    assert key.requests.level(start + 60.001) == limit
    assert key.requests.level(start + 1000) == limit


@fuzz(150)
@given(st.integers(1, 1000), st.integers(1, 3000), st.floats(0, 100, allow_nan=False))
def test_the_wait_told_is_the_wait_needed(limit: int, used: int, amount: float) -> None:
    bucket = Bucket(limit, 0.0)
    bucket.take(used)
    wait = bucket.wait_seconds(amount, 0.0)
    assert bucket.wait_seconds(amount, wait + EPSILON) <= EPSILON
    if wait > 1:
        fresh = Bucket(limit, 0.0)
        fresh.take(used)
        assert fresh.wait_seconds(amount, wait - 1) > 0.9


def test_the_refused_is_told_when_it_fits() -> None:
    key = rates(requests=2)
    assert [admits(key, 0.0) for _ in range(3)] == [True, True, False]
    with pytest.raises(RateLimited, match=r"2 requests per minute") as refused:
        admit(key, 10.0)
    assert refused.value.retry_after_seconds == pytest.approx(20)
    assert (refused.value.type, refused.value.status) == ("requests", 429)
    assert admits(key, 30.0)


def test_a_refused_request_counts_nowhere() -> None:
    """It counts neither in the rate nor as in flight, whichever limit refused it."""
    key = rates(requests=1, concurrency=1)
    admit(key, 0.0)
    for _ in range(5):
        with pytest.raises(RateLimited, match="in flight"):
            admit(key, 0.0)
    key.release()
    for _ in range(5):
        with pytest.raises(RateLimited, match="per minute"):
            admit(key, 0.0)
    assert key.in_flight == 0
    admit(key, 60.001)
    assert key.in_flight == 1


def test_concurrency_counts_what_is_in_flight() -> None:
    key = rates(concurrency=2)
    admit(key, 0.0)
    admit(key, 0.0)
    with pytest.raises(RateLimited) as refused:
        admit(key, 0.0)
    assert refused.value.retry_after_seconds == 1.0
    key.release()
    admit(key, 0.0)
    assert key.in_flight == 2


def test_a_limit_of_none_limits_nothing() -> None:
    key = rates()
    for _ in range(1000):
        admit(key, 0.0)
        key.take_tokens(10**9, 0.0)
    assert tell(key, 0.0) == {}
    assert key.in_flight == 1000


def test_a_request_larger_than_the_bucket_passes_when_it_is_full() -> None:
    key = rates(tokens=100)
    key.take_tokens(1000, 0.0)
    assert key.tokens is not None
    assert key.tokens.level(0.0) == -900
    with pytest.raises(RateLimited):
        key.take_tokens(1, 539.0)
    key.take_tokens(1, 541.0)


def test_a_request_larger_than_the_bucket_waits_until_it_is_full() -> None:
    key = rates(tokens=100)
    key.take_tokens(50, 0.0)
    with pytest.raises(RateLimited, match=r"100 tokens per minute .* about 1000") as refused:
        key.take_tokens(1000, 0.0)
    assert refused.value.type == "tokens"
    assert refused.value.retry_after_seconds == pytest.approx(30)
    key.take_tokens(1000, 30.001)


def test_the_true_count_takes_the_place_of_the_estimate() -> None:
    key = rates(tokens=100)
    assert key.tokens is not None
    key.take_tokens(10, 0.0)
    key.correct_tokens(10, 150)
    assert key.tokens.level(0.0) == -50
    key.correct_tokens(150, 10)
    assert key.tokens.level(0.0) == 90
    rates().correct_tokens(1, 2)


def tell(key: Rates, now: float) -> Mapping[str, str]:
    return CALLERS["chat"].limit_headers(key.list_limits(now), 0)


def test_headers_tell_limit_rest_and_reset() -> None:
    key = rates(requests=60, tokens=1000)
    admit(key, 0.0)
    key.take_tokens(250, 0.0)
    assert tell(key, 0.0) == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": "750",
        "x-ratelimit-reset-tokens": "15s",
    }


def test_what_is_overdrawn_is_told_as_nothing_left() -> None:
    key = rates(tokens=60)
    key.take_tokens(6060, 0.0)
    headers = tell(key, 0.0)
    assert headers["x-ratelimit-remaining-tokens"] == "0"
    assert headers["x-ratelimit-reset-tokens"] == "101m0s"
    assert "x-ratelimit-limit-requests" not in headers


def test_a_part_of_a_request_is_not_told_as_one_left() -> None:
    key = rates(requests=60)
    admit(key, 0.0)
    assert tell(key, 0.5)["x-ratelimit-remaining-requests"] == "59"


def test_messages_headers_say_when_as_a_time() -> None:
    """Anthropic's names, and RFC 3339 in UTC: 60 s after the clock's 12:00 for an empty bucket."""
    key = rates(requests=2)
    admit(key, 0.0)
    admit(key, 0.0)
    noon_ms = 1_767_268_800_000
    headers = CALLERS["messages"].limit_headers(key.list_limits(0.0), noon_ms)
    assert {name: value for name, value in headers.items() if "anthropic" in name} == {
        "anthropic-ratelimit-requests-limit": "2",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2026-01-01T12:01:00Z",
    }


def test_an_account_s_tokens_are_counted_once_by_whichever_key() -> None:
    account = rates(tokens=100, owner="account")
    one, other = rates(tokens=1000, above=account), rates(above=account)
    one.take_tokens(60, 0.0)
    with pytest.raises(RateLimited, match="This account may use 100 tokens") as refused:
        one.take_tokens(60, 0.0)
    assert refused.value.type == "tokens"
    with pytest.raises(RateLimited, match="This account may use 100 tokens"):
        other.take_tokens(60, 0.0)
    assert one.tokens is not None
    assert one.tokens.level(0.0) == 940, "what the account refused is not counted by the key"
    one.correct_tokens(60, 10)
    other.take_tokens(60, 0.0)
    other.correct_tokens(60, 85)
    assert (tell(one, 0.0)["x-ratelimit-remaining-tokens"], one.tokens.level(0.0)) == ("5", 990)
    one.take_tokens(988, 60.0)
    assert tell(one, 60.0)["x-ratelimit-limit-tokens"] == "100", "the account has less left"


# ---- counts of tokens -----------------------------------------------------------------------------


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
