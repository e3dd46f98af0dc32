"""A provider at run time, without routes; test_routing.py has its breakers and rests at work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.errors import UpstreamUnavailable
from gateway.upstream.forwarder import HttpForwarder
from gateway.upstream.routing import ProviderState
from tests.support.records import make_provider

LIMIT = 2
KEYS = ("sk-first-0123456789aaaa", "sk-second-0123456789bbbb")


@pytest.fixture
def provider() -> Iterator[ProviderState]:
    forwarder = HttpForwarder(make_provider(max_concurrency=LIMIT, api_keys=KEYS))
    yield ProviderState(forwarder)
    forwarder.close()


def test_other_settings_count_what_is_in_flight_by_the_old_ones(provider: ProviderState) -> None:
    for _ in range(LIMIT):
        provider.enter("large")
    after = ProviderState(provider.forwarder, provider)
    with pytest.raises(UpstreamUnavailable):
        after.enter("large")
    provider.leave("large", None)
    after.enter("large")
    assert after.in_flight == provider.in_flight == LIMIT


def test_keys_are_listed_with_their_load(provider: ProviderState) -> None:
    provider.forwarder.keys[1].in_flight = 3
    assert provider.list_keys() == [("aaaa", 0, 0), ("bbbb", 3, 0)]
