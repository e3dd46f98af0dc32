"""Accounts and keys in memory: what ended goes, so that holders cannot fill it."""

from __future__ import annotations

from gateway.ledger import KeyTerms
from gateway.ledger.base import Account
from gateway.ledger.sqlite.serving.memory import KEYS_BEFORE_SWEEP, KeyRow, Memory, Snapshot


def make_row(
    number: int, *, revoked_ms: int | None = None, expires_ms: int | None = None
) -> KeyRow:
    digest = number.to_bytes(32, "big")
    terms = KeyTerms(expires_ms=expires_ms)
    return KeyRow(f"key_{number}", 1, digest, terms, revoked_ms, spent_nano=0)


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
    memory.assign({1: 4}, {"key_0": 1, "key_1": 1})
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
