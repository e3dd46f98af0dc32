"""The memory of requests and replies: each account's share, and that one account's fills no other's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.api.bodies import count_body, count_reply, may_read, release
from gateway.api.state import Gateway
from gateway.errors import Overloaded, RateLimited

MIB = 2**20


def make_call(gateway: Gateway, account_id: int) -> Any:
    key = SimpleNamespace(account=SimpleNamespace(id=account_id))
    return SimpleNamespace(gateway=gateway, held_bytes=0, reply_bytes=0, key=key)


def make_gateway(max_bodies_mb: int) -> Gateway:
    server = SimpleNamespace(max_bodies_mb=max_bodies_mb)
    nothing = cast("Any", None)
    config = cast("Any", SimpleNamespace(server=server))
    return Gateway(config, nothing, nothing, nothing, nothing)


def test_one_account_has_half_of_the_budget() -> None:
    gateway = make_gateway(4)
    count_body(make_call(gateway, 1), MIB)
    count_body(make_call(gateway, 1), MIB)
    with pytest.raises(RateLimited, match="Your account"):
        count_body(make_call(gateway, 1), 1)
    count_body(make_call(gateway, 2), 2 * MIB)


def test_once_the_budget_is_full_each_account_has_an_equal_part() -> None:
    """Two accounts that fill it shut out nobody who wants less than they have."""
    gateway = make_gateway(6)
    first, second, third = (make_call(gateway, number) for number in (1, 2, 3))
    count_body(first, 3 * MIB)
    count_body(second, 3 * MIB)
    with pytest.raises(Overloaded):
        count_body(make_call(gateway, 3), 2 * MIB + 1)
    count_body(third, 2 * MIB)
    with pytest.raises(Overloaded):
        count_body(make_call(gateway, 3), 1)
    assert (gateway.held_bytes, first.held_bytes, third.held_bytes) == (8 * MIB, 3 * MIB, 2 * MIB)
    release(first)
    count_body(make_call(gateway, 3), 1)
    release(second)
    release(third)
    assert (gateway.held_bytes, list(gateway.shares)) == (1, [3])


def test_a_request_that_is_alone_always_has_room() -> None:
    """A large one is counted three times, which may be more than the whole budget."""
    gateway = make_gateway(2)
    call = make_call(gateway, 1)
    count_body(call, MIB)
    count_body(call, 2 * MIB)
    with pytest.raises(RateLimited):
        count_body(make_call(gateway, 1), 1)


def test_a_request_that_is_alone_in_its_account_has_what_the_others_leave() -> None:
    gateway = make_gateway(4)
    count_body(make_call(gateway, 2), MIB)
    count_body(make_call(gateway, 1), 3 * MIB)


def test_of_an_account_over_its_share_one_reply_is_read_on() -> None:
    """It goes ahead until its caller has it; then the next one does. Other accounts read on."""
    gateway = make_gateway(4)
    ahead, behind, last = (make_call(gateway, 1) for _ in range(3))
    assert count_reply(behind, MIB)
    assert count_reply(last, MIB)
    assert count_reply(ahead, 1)
    assert count_reply(ahead, MIB)
    assert not count_reply(behind, MIB + 1)
    assert not may_read(last)
    assert count_reply(make_call(gateway, 2), 2 * MIB)
    with pytest.raises(RateLimited):
        count_body(make_call(gateway, 1), 1)
    release(ahead)
    assert not gateway.shares[1].ahead
    assert may_read(last), "it asks first"
    assert not may_read(behind)
    release(last)
    assert may_read(behind)
    release(behind)
    assert list(gateway.shares) == [2]
