"""Keys of one provider: which one a request goes out by, and those that rest.

Requests that go out by them are in `test_played`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from gateway.base.errors import BadRequest, UpstreamError, UpstreamUnavailable
from gateway.config.records import KeySource
from gateway.upstream.keys import KeyRing, ProviderKey

SECRETS: Final = ("sk-first-0123456789aaaa", "sk-second-0123456789bbbb", "sk-third-0123456789cccc")
AFFINITIES: Final = tuple(f"key_{number:04}" for number in range(900))


def make_refusal(status: int = 429, rest_seconds: float = 0.0) -> UpstreamError:
    error = UpstreamUnavailable("Limited.", rest_seconds=rest_seconds, cause=f"status {status}")
    error.upstream_status, error.refuses_key = status, status != 500
    return error


def choose(ring: KeyRing, affinity: str) -> ProviderKey:
    return ring.line_up(affinity)[0]


# ---- the ring ------------------------------------------------------------------------------------


def test_one_affinity_goes_by_one_key_in_any_order() -> None:
    """So a restart, or keys written in another order, lose no cache."""
    first, second = KeyRing("p", SECRETS), KeyRing("p", SECRETS[::-1])
    for affinity in AFFINITIES:
        assert choose(first, affinity).secret == choose(second, affinity).secret


def test_affinities_are_spread_evenly() -> None:
    ring = KeyRing("p", SECRETS)
    counts = Counter(choose(ring, affinity).secret for affinity in AFFINITIES)
    assert all(200 < counts[secret] < 400 for secret in SECRETS)


def test_only_the_requests_of_a_resting_key_move() -> None:
    ring = KeyRing("p", SECRETS)
    before = {affinity: choose(ring, affinity) for affinity in AFFINITIES}
    assert ring.let_rest(ring.keys[0], ring.keys[0].secret, make_refusal())
    for affinity, key in before.items():
        assert (choose(ring, affinity) is key) is (key is not ring.keys[0])
    ring.keys[0].rests_until = 0.0
    assert {affinity: choose(ring, affinity) for affinity in AFFINITIES} == before


def test_when_all_rest_the_one_that_rests_least_is_tried() -> None:
    ring = KeyRing("p", SECRETS)
    for key, seconds in zip(ring.keys, (30, 5, 60), strict=True):
        ring.let_rest(key, key.secret, make_refusal(rest_seconds=seconds))
    assert ring.line_up("any") == [ring.keys[1]]
    assert [key.rest_seconds for key in ring.keys] == [30, 5, 60]


def test_what_is_not_the_keys_fault_lets_none_rest() -> None:
    ring = KeyRing("p", SECRETS)
    assert not ring.let_rest(ring.keys[0], ring.keys[0].secret, make_refusal(500))
    assert not ring.let_rest(ring.keys[0], ring.keys[0].secret, BadRequest("No."))
    assert ring.keys[0].rest_seconds == 0


SOURCE: Final = KeySource("command:true", ("true",), Path(), 3000)


def test_a_key_that_its_source_has_not_given_is_not_tried_first() -> None:
    ring = KeyRing("p", ("", "lasting-key"), (SOURCE, None))
    assert {choose(ring, affinity).secret for affinity in AFFINITIES[:50]} == {"lasting-key"}
    ring.keys[0].renew("first-key")
    assert {choose(ring, affinity).secret for affinity in AFFINITIES[:50]} == {
        "first-key",
        "lasting-key",
    }


def test_a_refusal_of_the_old_key_lets_the_new_one_serve() -> None:
    ring = KeyRing("p", ("", "lasting-key"), (SOURCE, None))
    key = ring.keys[0]
    key.renew("first-key")
    key.renew("second-key")
    assert ring.let_rest(key, "first-key", make_refusal(401))
    assert key.rest_seconds == 0


def test_a_failure_is_of_the_time_at_which_it_began() -> None:
    (key,) = KeyRing("p", ("first-key",), (SOURCE,)).keys
    for now_ms in (1, 2):
        key.note_failure("The command exited with 1.", now_ms)
    assert key.failed_ms == 1
    key.renew("first-key")
    key.note_failure("The command exited with 1.", 3)
    assert key.failed_ms == 3


def test_an_only_key_never_rests() -> None:
    """Routing lets the model rest instead; see `ProviderState`."""
    for secrets in ((), SECRETS[:1]):
        ring = KeyRing("p", secrets)
        ring.let_rest(ring.keys[0], ring.keys[0].secret, make_refusal())
        assert (ring.keys[0].rest_seconds, len(ring.line_up(""))) == (0, 1)
