"""Counts of tries: cookies of known browsers, and bounded memory; `plain.sign_in` has the rest."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final, NoReturn

import pytest

from gateway.extras.signins import throttle
from gateway.extras.signins.door import Door, Visit
from gateway.extras.signins.throttle import (
    FREE_FAILURES,
    SignInThrottle,
    Tries,
    find_device,
    make_cookie,
)
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.books import Books

HASH: Final = "scrypt$15$8$3$c2FsdA==$aGFzaA=="


def test_a_device_cookie_is_of_one_account_and_password() -> None:
    made, again = make_cookie("alice", HASH), make_cookie("alice", HASH)
    device = find_device(made.value, "alice", HASH)
    assert device is not None
    assert len(device) == 16
    for name, stored in (("bob", HASH), ("alice", HASH.replace("15", "16")), ("alice", None)):
        assert find_device(made.value, name, stored) is None
    assert again.name == made.name != make_cookie("bob", HASH).name
    assert find_device(again.value, "alice", HASH) != device, "each browser has its own count"
    assert made.value not in repr(made)
    raw = base64.urlsafe_b64decode(made.value)
    broken = [
        base64.urlsafe_b64encode(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]).decode()
        for place in (0, 15, 16, 47)
    ]
    value = made.value
    short = ["", "=", "A", "A" * 21, "A" * 22, "A" * 64, value[:-1], f"{value}A", f"{value}AAAA"]
    for text in (*broken, *short, f" {value}", f"{value}\n", "\xff", "x" * 8000):
        assert find_device(text, "alice", HASH) is None


def test_names_are_bounded_and_not_kept_as_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long they are; the latest are kept, of names as of addresses."""
    monkeypatch.setattr(throttle, "MAX_KNOWN", 50)
    signins = SignInThrottle(lambda: 1000.0)
    for number in range(70):
        signins.take(f"{number}" * 400, f"2001:db8:{number:x}::1")
    assert [len(key) for key in signins._names] == [16] * 50
    assert len(signins._addresses._times) == 50
    waits = [signins.take("69" * 400, f"10.0.{number}.1") for number in range(5)]
    assert waits == [0, 0, 0, 0, 1]


def test_the_least_lately_tried_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "MAX_KNOWN", 3)
    tries = Tries(2, 1e9, clock=lambda: 1000.0)
    for name in ("first", "second", "third", "first", "one more"):
        tries.take(name)
    assert tries.take("first") > 0
    assert [tries.take("second"), tries.take("second")] == [0, 0]


async def test_an_outage_is_no_wrong_password() -> None:
    async def run(_: Callable[[Books], object]) -> NoReturn:
        raise LedgerError("away")

    door, visit = Door(), Visit(run, "192.0.2.1", "Firefox on Linux")
    for _ in range(2 * FREE_FAILURES):
        with pytest.raises(LedgerError, match="away"):
            await door.sign_in(visit, "alice", "correct horse battery", None, lambda *_: None)
