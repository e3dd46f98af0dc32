"""The shared state: the rates of each key, and the limits in force."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.api import Gateway
from gateway.errors import RateLimited
from gateway.ledger.base import Account, Key
from gateway.ledger.key_records import KeyTerms

KEY = Key("k", Account(1, "a", False, 10**9), KeyTerms())


def make_services(*, requests: int) -> Gateway:
    limits = SimpleNamespace(requests_per_minute=requests, tokens_per_minute=0, concurrency=0)
    nothing = cast("Any", None)
    config = cast("Any", SimpleNamespace(limits=limits))
    return Gateway(config, nothing, nothing, nothing, nothing)


def test_changed_limits_count_anew_and_know_what_is_in_flight() -> None:
    """Requests in flight release the object that counted them."""
    services = make_services(requests=1)
    first = services.find_rates(KEY, 0.0)
    first.admit(0.0)
    with pytest.raises(RateLimited):
        first.admit(0.0)
    assert services.find_rates(KEY, 0.0) is first, "nothing was changed"
    changed = replace(KEY, terms=KeyTerms(requests_per_minute=2, concurrency=2))
    second = services.find_rates(changed, 0.0)
    assert second is first
    second.admit(0.0)
    with pytest.raises(RateLimited, match="2 requests in flight"):
        second.admit(0.0)
    second.release()
    second.admit(0.0)
    second.release()
    with pytest.raises(RateLimited, match="2 requests per minute"):
        second.admit(0.0)


def test_keys_have_rates_of_their_own() -> None:
    services = make_services(requests=1)
    services.find_rates(KEY, 0.0).admit(0.0)
    services.find_rates(replace(KEY, id="other"), 0.0).admit(0.0)


@pytest.mark.parametrize("own", [None, 0, 7])
def test_a_key_without_limits_has_the_configured_ones(own: int | None) -> None:
    """0 is a limit of its own: none."""
    key = replace(KEY, terms=KeyTerms(requests_per_minute=own))
    requests = make_services(requests=5).find_rates(key, 0.0).requests
    assert (requests and requests.limit) == {None: 5, 0: None, 7: 7}[own]
