"""The ledger's memory: snapshots of accounts and keys, how money is set aside."""

from __future__ import annotations

import contextlib

import pytest

from gateway.base.errors import NoFunds
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import MAX_INTEGER
from gateway.ledger.serving.memory import KeyRow, Memory, Snapshot, drop_hold, raise_to, take_hold
from tests.ledger.contract.kit import admission
from tests.support.rows import each_row

KEYS_BEFORE_SWEEP = 1024

DIGEST = b"d" * 32


def make_snapshot(balance_nano: int = 1000, **account: object) -> Snapshot:
    row = Account(1, "a", suspended=bool(account.get("suspended")), balance_nano=balance_nano)
    return Snapshot((row,), (KeyRow("k", 1, DIGEST, KeyTerms(cap_nano=5000), None, "k", 0),))


def find(memory: Memory) -> Key:
    key = memory.find_key(DIGEST)
    assert key is not None
    return key


@each_row(("held_nano", "fits"), [(MAX_INTEGER - 7, True), (MAX_INTEGER - 6, False)])
def test_holds_sum_up_to_no_more_than_the_ledger_can_write(held_nano: int, *, fits: bool) -> None:
    key = Key("k", Account(1, "a", False, MAX_INTEGER), KeyTerms(), Line("k"))
    key.account.held_nano = held_nano
    with contextlib.nullcontext() if fits else pytest.raises(NoFunds):
        take_hold(key, admission(3, full_nano=7))


def test_a_hold_is_only_ever_raised_and_dropped_once() -> None:
    memory = Memory(lambda: 0)
    memory.apply(make_snapshot())
    key = find(memory)
    hold, other = take_hold(key, admission(100)), take_hold(key, admission(7))
    raise_to(hold, 50)
    assert key.held_nano == 107
    raise_to(hold, 300)
    assert key.held_nano == key.account.held_nano == 307
    for _ in range(2):
        drop_hold(hold)
    assert (key.held_nano, key.account.held_nano, other.resolved) == (7, 7, False)


def make_row(
    number: int, *, revoked_ms: int | None = None, expires_ms: int | None = None
) -> KeyRow:
    digest = number.to_bytes(32, "big")
    terms = KeyTerms(expires_ms=expires_ms)
    key_id = f"key_{number}"
    return KeyRow(key_id, 1, digest, terms, revoked_ms, origin_id=key_id, spent_nano=0)


def count(memory: Memory, numbers: range) -> int:
    return sum(memory.find_key(number.to_bytes(32, "big")) is not None for number in numbers)


def test_keys_that_are_made_and_revoked_all_day_take_no_memory() -> None:
    memory = Memory(lambda: 0)
    memory.apply(Snapshot((Account(1, "a", False, 5),), (make_row(0),)))
    kept = memory.find_key(bytes(32))
    for number in range(1, 3 * KEYS_BEFORE_SWEEP):
        memory.apply(Snapshot((), (make_row(number),)))
        memory.apply(Snapshot((), (make_row(number, revoked_ms=1),)))
        memory.apply(Snapshot((), (make_row(number, revoked_ms=1),)))
    assert count(memory, range(3 * KEYS_BEFORE_SWEEP)) == 1
    assert memory.find_key(bytes(32)) is kept
    memory.assign({1: 4}, {"key_0": 1, "key_1": 1}, {})
    assert kept is not None
    assert (kept.spent_nano, kept.account.balance_nano) == (1, 4)


def test_expired_keys_go_when_keys_have_doubled() -> None:
    """The live ones stay the same objects, which requests in flight count on."""
    now_ms = 0
    memory = Memory(lambda: now_ms)
    memory.apply(Snapshot((Account(1, "a", False, 5),), (make_row(0),)))
    kept = memory.find_key(bytes(32))
    brief = range(1, KEYS_BEFORE_SWEEP)
    memory.apply(Snapshot((), tuple(make_row(number, expires_ms=10) for number in brief)))
    now_ms = 10
    assert count(memory, brief) == len(brief), "their holders are told without a look-up"
    memory.apply(Snapshot((), (make_row(KEYS_BEFORE_SWEEP),)))
    assert count(memory, brief) == 0
    assert memory.find_key(bytes(32)) is kept
    assert count(memory, range(KEYS_BEFORE_SWEEP + 1)) == 2
