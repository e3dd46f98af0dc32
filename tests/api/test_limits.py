"""Rate limits of keys and accounts, on a clock that the tests set.

`rates.txt` has what the keys of one account ask for, and what they are told:

    # a title
    defaults requests=2 share=3     the configured limits of keys, and of accounts at once
    account tokens=100              the account's own; `key a …` those of a key
    @10 a asks = 20 s: This key …   when, in seconds, and by which key; the wait and the refusal
    a takes 9; a corrects 9 to 7    tokens that are expected, and those that were used
    a ends; a has = …               the end of a request; what is left, in flight of key and account
    a told = …                      the limits that the ledger hears of
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from hypothesis import given
from hypothesis import strategies as st

from gateway.api.limits import Bucket, Rates
from gateway.api.state import Gateway
from gateway.base.errors import RateLimited
from gateway.dialects.wire.base import RateLimit
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.key_records import KeyTerms, Limits, Terms
from tests.support.formats import CALLERS
from tests.support.fuzz import fuzz
from tests.support.rows import told_together

EPSILON = 1e-6
"""Levels are floats, so a millionth of a request counts as none."""
RATES: Final = Path(__file__).with_name("rates.txt")
NAMES: Final = {"requests": "requests_per_minute", "tokens": "tokens_per_minute"}
NOTHING: Final = cast("Any", None)


class Desk:
    """An account and its keys, at a gateway."""

    def __init__(self) -> None:
        self.account = Account(1, "a", False, 10**9)
        self.keys: dict[str, Key] = {}
        self.routes = cast("Any", SimpleNamespace(close=lambda **_: None))
        self.gateway = Gateway(self.configure(), NOTHING, self.routes, NOTHING, NOTHING)

    def configure(self, requests: int = 0, share: int = 0) -> Any:
        limits, account_limits = Limits(requests, 0, 0), Limits(0, 0, share)
        return SimpleNamespace(limits=limits, account_limits=account_limits)

    def find_key(self, name: str) -> Key:
        return self.keys.setdefault(name, Key(name, self.account, KeyTerms(), Line(name)))

    def play(self, step: str) -> str:
        words = step.split()
        now = float(words.pop(0)[1:]) if step.startswith("@") else 0.0
        pairs = [one.split("=") for one in words if "=" in one]
        terms: Any = {NAMES.get(k, k): int(v) if v.isdecimal() else v for k, v in pairs}
        match words:
            case ["defaults", *_]:
                told = {name: int(value) for name, value in pairs}
                self.gateway.swap(self.configure(**told), self.routes)
            case ["account", *_]:
                self.account.terms = Terms(**terms)
            case ["key", name, *_]:
                self.find_key(name).terms = KeyTerms(**terms)
            case [name, verb, *counts]:
                rates = self.gateway.rates.find(self.find_key(name), self.gateway.config, now)
                return self.use(rates, verb, [int(one) for one in counts if one != "to"], now)
            case _:
                raise AssertionError(step)
        return ""

    def use(self, rates: Rates, verb: str, counts: list[int], now: float) -> str:
        assert rates.above is not None
        try:
            match verb:
                case "asks":
                    rates.check(now)
                    rates.admit()
                case "takes":
                    rates.take_tokens(counts[0], now)
                case "corrects":
                    rates.correct_tokens(*counts)
                case "ends":
                    rates.release()
                case "told":
                    return f"key {show(rates.rate)}, account {show(rates.above.rate)}"
                case "has":
                    left = [
                        f"{one.remaining} of {one.limit} {one.name}, all in {one.reset_seconds:g} s"
                        for one in rates.list_limits(now)
                    ]
                    flight = f"in flight {rates.in_flight} of {rates.above.in_flight}"
                    return "; ".join([*left, flight])
                case _:
                    raise AssertionError(verb)
        except RateLimited as refused:
            message = refused.message.partition(". ")[0]
            return f"{refused.retry_after_seconds:.4g} s: {message}"
        return ""


def show(rate: Limits | None) -> str:
    if rate is None:
        return "none"
    return f"{rate.requests_per_minute} {rate.tokens_per_minute} {rate.concurrency}"


def test_rates_are_used_as_it_is_written() -> None:
    with told_together() as row:
        for block in RATES.read_text(encoding="utf-8").split("# ")[1:]:
            title, *lines = block.strip().split("\n")
            desk, told = Desk(), list[str]()
            for line in lines:
                steps = line.partition(" = ")[0].split("; ")
                told.append(
                    " = ".join(filter(None, [line.partition(" = ")[0], *map(desk.play, steps)]))
                )
            with row(title):
                assert told == lines


def test_headers_tell_limit_rest_and_reset() -> None:
    """Messages' are Anthropic's names, and say when as a time of RFC 3339 in UTC."""
    noon_ms = 1_767_268_800_000
    for dialect, told in (
        ("chat", "x-ratelimit-{}-requests: 2 0 101m0s"),
        ("chat", "x-ratelimit-{}-tokens: 60 9 1s"),
        ("messages", "anthropic-ratelimit-requests-{}: 2 0 2026-01-01T13:41:00Z"),
    ):
        limits = [RateLimit("requests", 2, 0, 6060.0), RateLimit("tokens", 60, 9, 1.0)]
        headers = CALLERS[dialect].limit_headers(limits, noon_ms)
        name, _, values = told.partition(": ")
        parts = [headers[name.format(one)] for one in ("limit", "remaining", "reset")]
        assert " ".join(parts) == values


@fuzz(150)
@given(st.integers(1, 40), st.lists(st.floats(0, 90, allow_nan=False), min_size=1, max_size=120))
def test_never_more_than_the_limit_and_the_refill_are_admitted(
    limit: int, gaps: list[float]
) -> None:
    """In any interval at most `limit` plus the refill is admitted."""
    bucket, now = Bucket(limit, 0.0), 0.0
    admitted: list[float] = []
    for gap in gaps:
        now += gap / limit
        while not bucket.wait_seconds(1, now) and len(admitted) < 500:
            bucket.level -= 1
            admitted.append(now)
    for first, since in enumerate(admitted):
        for last in range(first, len(admitted)):
            refill = (admitted[last] - since) * limit / 60
            assert last - first + 1 <= limit + refill + EPSILON


@fuzz(150)
@given(st.integers(1, 1000), st.integers(1, 3000), st.floats(0, 100, allow_nan=False))
def test_the_wait_told_is_the_wait_needed(limit: int, used: int, amount: float) -> None:
    bucket = Bucket(limit, 0.0)
    bucket.level -= used
    wait = bucket.wait_seconds(amount, 0.0)
    assert bucket.wait_seconds(amount, wait + EPSILON) <= EPSILON
    if wait > 1:
        fresh = Bucket(limit, 0.0)
        fresh.level -= used
        assert fresh.wait_seconds(amount, wait - 1) > 0.9
