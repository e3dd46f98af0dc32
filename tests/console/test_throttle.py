"""Throttles: how many tries, how often, and how much memory they take."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from gateway.console import throttle as throttles
from gateway.console.throttle import (
    ADDRESS_SECONDS,
    ADDRESS_TRIES,
    FORGET_SECONDS,
    SignInThrottle,
    Tries,
)


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttle(clock: Clock) -> SignInThrottle:
    return SignInThrottle(clock)


ADDRESSES = (f"10.{one >> 8 & 255}.{one & 255}.1" for one in itertools.count())


def attempt(throttle: SignInThrottle, name: str = "alice") -> int:
    """Try to sign in, each time from another address."""
    return throttle.take(name, next(ADDRESSES))


# ---- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["alice", "nobody of that name", "", "\U0001f600" * 1000])
def test_five_failures_are_free_then_the_delay_doubles(
    throttle: SignInThrottle, clock: Clock, name: str
) -> None:
    assert [attempt(throttle, name) for _ in range(5)] == [0] * 5
    delays = []
    for _ in range(13):
        wait = attempt(throttle, name)
        delays.append(wait)
        clock.now += wait - 0.001
        assert attempt(throttle, name) == 1
        clock.now += 0.001
        assert attempt(throttle, name) == 0
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]


def test_many_at_once_are_not_all_let_in(throttle: SignInThrottle) -> None:
    """A try counts when it is admitted, before it can fail."""
    assert [attempt(throttle) for _ in range(100)].count(0) == 5


def test_a_refused_try_makes_no_longer_wait(throttle: SignInThrottle, clock: Clock) -> None:
    for _ in range(500):
        attempt(throttle)
    clock.now += 1
    assert attempt(throttle) == 0


def test_names_do_not_wait_for_each_other(throttle: SignInThrottle) -> None:
    for _ in range(6):
        attempt(throttle)
    assert attempt(throttle, "bob") == 0
    assert attempt(throttle, "Alice") == 0


def test_success_begins_anew(throttle: SignInThrottle) -> None:
    for _ in range(5):
        attempt(throttle)
    throttle.succeed("alice", "10.0.0.1")
    assert [attempt(throttle) for _ in range(5)] == [0] * 5
    throttle.clear("alice")
    assert attempt(throttle) == 0


def test_a_day_without_tries_is_forgotten(throttle: SignInThrottle, clock: Clock) -> None:
    for _ in range(5):
        attempt(throttle)
    clock.now += FORGET_SECONDS
    assert [attempt(throttle) for _ in range(5)] == [0] * 5
    assert attempt(throttle) == 1


def test_names_are_bounded_and_not_kept_as_typed(
    throttle: SignInThrottle, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long they are; the latest are kept, of names as of addresses."""
    monkeypatch.setattr(throttles, "MAX_KNOWN", 50)
    for number in range(70):
        throttle.take(f"{number}" * 400, f"2001:db8:{number:x}::1")
        clock.now += 0.01
    assert [len(key) for key in throttle._names] == [16] * 50
    assert len(throttle._addresses._times) == 50
    assert [attempt(throttle, "69" * 400) for _ in range(5)] == [0, 0, 0, 0, 1]


def test_a_known_device_has_a_count_of_its_own(throttle: SignInThrottle, clock: Clock) -> None:
    """Beside the name's and the address's: neither counts for the other."""
    first, second = b"1" * 16, b"2" * 16
    for _ in range(5):
        attempt(throttle)
    assert attempt(throttle) == 1
    for number in range(ADDRESS_TRIES):
        throttle.take(f"name {number}", "192.0.2.1")
    assert [throttle.take("alice", "192.0.2.1", first) for _ in range(6)] == [0] * 5 + [1]
    assert throttle.take("alice", "192.0.2.1", second) == 0
    clock.now += 1
    assert throttle.take("alice", "192.0.2.1", first) == 0
    throttle.succeed("alice", "192.0.2.1", first)
    assert [throttle.take("alice", "192.0.2.1", first) for _ in range(6)] == [0] * 5 + [1]
    assert throttle.take("bob", "192.0.2.1") > 0


@pytest.mark.parametrize("device", [None, b"1" * 16])
def test_a_try_that_only_lacks_a_code_does_not_count(
    throttle: SignInThrottle, device: bytes | None
) -> None:
    for _ in range(3 * ADDRESS_TRIES):
        assert throttle.take("alice", "192.0.2.1", device) == 0
        throttle.give_back("alice", "192.0.2.1", device)
    for _ in range(4):
        assert throttle.take("alice", "192.0.2.1", device) == 0
    throttle.take("alice", "192.0.2.1", device)
    throttle.give_back("alice", "192.0.2.1", device)
    assert throttle.take("alice", "192.0.2.1", device) == 0, "it takes no other's tries off"
    assert throttle.take("alice", "192.0.2.1", device) == 1


# ---- addresses -----------------------------------------------------------------------------------


def test_an_address_has_a_hundred_tries_in_a_quarter_of_an_hour(
    throttle: SignInThrottle, clock: Clock
) -> None:
    for number in range(ADDRESS_TRIES):
        assert throttle.take(f"name {number}", "192.0.2.1") == 0
        clock.now += 1
    assert throttle.take("another", "192.0.2.1") == ADDRESS_SECONDS - ADDRESS_TRIES
    assert throttle.take("another", "192.0.2.2") == 0
    clock.now += ADDRESS_SECONDS - ADDRESS_TRIES
    assert throttle.take("another", "192.0.2.1") == 0
    assert throttle.take("yet another", "192.0.2.1") == 1


def test_right_sign_ins_do_not_count_against_an_address(throttle: SignInThrottle) -> None:
    for _ in range(3 * ADDRESS_TRIES):
        assert throttle.take("alice", "192.0.2.1") == 0
        throttle.succeed("alice", "192.0.2.1")


def test_an_ipv6_network_is_one_address(throttle: SignInThrottle) -> None:
    for number in range(ADDRESS_TRIES):
        assert throttle.take(f"name {number}", f"2001:db8:1:2:{number:x}::1") == 0
    assert throttle.take("another", "2001:db8:1:2:ffff::1") > 0
    assert throttle.take("another", "2001:db8:1:3::1") == 0


@pytest.mark.parametrize("address", ["", "unix:", "fe80::1%eth0", "not an address"])
def test_any_address_will_do(throttle: SignInThrottle, address: str) -> None:
    assert throttle.take("alice", address) == 0


def count_notes(throttle: SignInThrottle, kind: str, addresses: int) -> int:
    """Let many addresses fail many times; return how often that is recorded."""
    tries = itertools.product(range(100), range(addresses))
    return sum(throttle.take_note(kind, f"192.0.2.{address}") for _, address in tries)


def test_failures_are_noted_so_often_and_no_more(throttle: SignInThrottle, clock: Clock) -> None:
    """Strangers do not fill the database, and one kind or address does not hide the others."""
    assert count_notes(throttle, "link", 1) == 50
    assert count_notes(throttle, "link", 20) == 150
    assert count_notes(throttle, "password", 2) == 100
    assert not throttle.take_note("password", "192.0.2.1")
    assert throttle.take_note("password", "2001:db8::1")
    clock.now += 3600
    assert throttle.take_note("link", "192.0.2.1")


def test_failures_of_one_name_are_bounded(throttle: SignInThrottle, clock: Clock) -> None:
    assert [throttle.take_name_note("ann") for _ in range(100)].count(True) == 60
    assert throttle.take_name_note("bob")
    clock.now += 3600
    assert throttle.take_name_note("ann")


# ---- tries ---------------------------------------------------------------------------------------


def test_a_window_slides(clock: Clock) -> None:
    tries = Tries(3, 60, clock=clock)
    for _ in range(3):
        assert tries.take(7) == 0
        clock.now += 10
    assert tries.take(7) == 30
    assert tries.take(8) == 0
    clock.now += 30
    assert tries.take(7) == 0
    assert tries.take(7) == 10


def test_what_is_refused_does_not_count(clock: Clock) -> None:
    tries = Tries(1, 60, clock=clock)
    assert [tries.take(7) for _ in range(3)] == [0, 60, 60]
    clock.now += 60
    assert tries.take(7) == 0


def test_what_is_given_back_does_not_count(clock: Clock) -> None:
    tries = Tries(1, 60, clock=clock)
    for _ in range(3):
        assert tries.take(7) == 0
        tries.give_back(7)
    tries.give_back(7)
    tries.give_back("never seen")


def test_the_least_lately_tried_are_forgotten(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttles, "MAX_KNOWN", 5)
    tries = Tries(2, 1e9, clock=clock)
    tries.take("first")
    tries.take("second")
    for number in range(5 - 2):
        tries.take(number)
    tries.take("first")
    tries.take("one more")
    assert tries.take("first") > 0
    assert [tries.take("second"), tries.take("second")] == [0, 0]
