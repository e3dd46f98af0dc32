"""The shared state: the rates of keys and accounts, and the limits in force."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.api.limits import Rates
from gateway.api.state import Gateway
from gateway.config.records import Limits
from gateway.errors import RateLimited
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.key_records import KeyTerms, Rate, Terms
from tests.support.rows import each_row


def admit(rates: Rates, now: float) -> None:
    rates.check(now)
    rates.admit()


def make_key(account: Account | None = None, terms: KeyTerms | None = None) -> Key:
    return Key("k", account or Account(1, "a", False, 10**9), terms or KeyTerms(), Line("k"))


def make_services(*, requests: int = 0, share: int = 0) -> Gateway:
    nothing = cast("Any", None)
    routes = cast("Any", SimpleNamespace(close=lambda **_: None))
    limits, account_limits = Limits(requests, 0, 0), Limits(0, 0, share)
    config = cast("Any", SimpleNamespace(limits=limits, account_limits=account_limits))
    return Gateway(config, nothing, routes, nothing, nothing)


def test_changed_limits_count_anew_and_know_what_is_in_flight() -> None:
    """Requests in flight release the object that counted them."""
    services, key = make_services(requests=1), make_key()
    first = services.find_rates(key, 0.0)
    admit(first, 0.0)
    with pytest.raises(RateLimited):
        admit(first, 0.0)
    key.terms = KeyTerms(name="renamed")
    with pytest.raises(RateLimited):
        admit(services.find_rates(key, 0.0), 0.0)
    key.terms = KeyTerms(requests_per_minute=2, concurrency=2)
    second = services.find_rates(key, 0.0)
    assert second is first
    admit(second, 0.0)
    with pytest.raises(RateLimited, match="2 requests in flight"):
        admit(second, 0.0)
    second.release()
    admit(second, 0.0)
    second.release()
    with pytest.raises(RateLimited, match="2 requests per minute"):
        admit(second, 0.0)


def test_keys_have_rates_of_their_own() -> None:
    services = make_services(requests=1)
    account = Account(1, "a", False, 10**9)
    admit(services.find_rates(make_key(account), 0.0), 0.0)
    admit(services.find_rates(make_key(account), 0.0), 0.0)


@each_row("own", [None, 0, 7])
def test_a_key_without_limits_has_the_configured_ones(own: int | None) -> None:
    """0 is a limit of its own: none."""
    key = make_key(terms=KeyTerms(requests_per_minute=own))
    requests = make_services(requests=5).find_rates(key, 0.0).requests
    assert (requests and requests.limit) == {None: 5, 0: None, 7: 7}[own]


def test_an_account_limits_all_its_keys_together() -> None:
    """A refusal by the account counts nowhere; one by the key does not count for the account."""
    services, account = make_services(share=3), Account(1, "a", False, 10**9)
    account.terms = Terms(requests_per_minute=3)
    busy = make_key(account, KeyTerms(requests_per_minute=1))
    first, other = (services.find_rates(key, 0.0) for key in (busy, make_key(account)))
    admit(first, 0.0)
    with pytest.raises(RateLimited, match="This key may make 1 requests per minute"):
        admit(first, 0.0)
    admit(other, 0.0)
    admit(other, 0.0)
    with pytest.raises(RateLimited, match="This account has 3 requests in flight, its share"):
        admit(other, 0.0)
    first.release()
    with pytest.raises(RateLimited, match="This account may make 3 requests per minute") as refused:
        admit(other, 0.0)
    assert refused.value.retry_after_seconds == pytest.approx(20)
    assert first.above is not None
    assert first.above is other.above
    assert (first.in_flight, other.in_flight, first.above.in_flight) == (0, 2, 2)
    admit(other, 20.001)


def test_an_account_s_own_concurrency_takes_the_place_of_its_share() -> None:
    services, account = make_services(share=1), Account(1, "a", False, 10**9)
    key = make_key(account)
    admit(services.find_rates(key, 0.0), 0.0)
    with pytest.raises(RateLimited, match="its share of what the gateway takes"):
        admit(services.find_rates(key, 0.0), 0.0)
    account.terms = Terms(concurrency=2)
    admit(services.find_rates(key, 0.0), 0.0)
    with pytest.raises(RateLimited, match="2 requests in flight, as many as it may have at once"):
        admit(services.find_rates(key, 0.0), 0.0)
    account.terms = Terms(concurrency=0)
    admit(services.find_rates(key, 0.0), 0.0)


def test_other_defaults_count_for_keys_that_were_used_before() -> None:
    """A limit that stays keeps its count."""
    services, account = make_services(requests=2), Account(1, "a", False, 10**9)
    own, defaulted = make_key(account, KeyTerms(requests_per_minute=1)), make_key(account)
    for key in (own, defaulted):
        admit(services.find_rates(key, 0.0), 0.0)
    other = make_services(requests=3, share=2)
    services.reconfigure(other.config, other.routes)
    assert services.routes is other.routes
    with pytest.raises(RateLimited, match="1 requests per minute"):
        services.find_rates(own, 0.0).check(0.0)
    rates = services.find_rates(defaulted, 0.0)
    assert rates.requests is not None
    assert rates.requests.limit == 3
    with pytest.raises(RateLimited, match="its share"):
        rates.check(0.0)


@each_row(
    ("terms", "rate"),
    [
        (Terms(), None),
        (Terms(requests_per_minute=0), None),
        (Terms(requests_per_minute=6), Rate(6, 0, 0)),
        (Terms(tokens_per_minute=7), Rate(0, 7, 0)),
        (Terms(concurrency=8), Rate(0, 0, 8)),
    ],
)
def test_a_ledger_is_told_limits_but_no_share_of_this_process(
    terms: Terms, rate: Rate | None
) -> None:
    """The share of each process is of its own capacity; the limits are kept until they change."""
    services, account = make_services(share=3), Account(1, "a", False, 10**9, terms=terms)
    key = make_key(account, KeyTerms(requests_per_minute=5))
    found = services.find_rates(key, 0.0)
    assert found.above is not None
    assert (found.rate, found.above.rate) == (Rate(5, 0, 0), rate)
    assert services.find_rates(key, 1.0).rate is found.rate
    key.terms = KeyTerms(requests_per_minute=0)
    assert services.find_rates(key, 2.0).rate is None
