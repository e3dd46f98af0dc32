"""The oldest leave first, by time and by size, and what is shared counts once."""

from __future__ import annotations

import random
from itertools import permutations

from gateway.extras.recall.settings import Responses
from gateway.extras.recall.shelves import TEXT_BYTES, Kept, Shelves, Text

MIB = 1 << 20


def make(name: str, *texts: str) -> Kept:
    items = tuple(Text(text.encode(), text[:8]) for text in texts)
    return Kept(name, items[:-1], items[-1:], (("id", Text(name.encode())),))


def list_kept(shelves: Shelves, account: int, names: int) -> list[int]:
    return [name for name in range(names) if shelves.find(account, str(name), 0)]


def test_a_conversation_is_kept_once() -> None:
    shelves, texts = Shelves(Responses(60, 32)), [f"{one:08}" + "x" * 1000 for one in range(60)]
    for turn in range(60):
        shelves.keep(1, make(str(turn), *texts[: turn + 1]), 0)
    whole = sum(len(text) + TEXT_BYTES for text in texts)
    assert whole < shelves.size < 3.5 * whole
    assert list_kept(shelves, 1, 60) == [*range(60)]


def test_the_oldest_leave_first_and_one_account_has_a_quarter() -> None:
    shelves = Shelves(Responses(60, 4))
    for name in range(10):
        shelves.keep(1, make(str(name), f"{name:08}" + "x" * (MIB // 4)), name)
    assert list_kept(shelves, 1, 10) == [7, 8, 9]
    for account in range(2, 9):
        for name in range(3):
            shelves.keep(account, make(str(name), f"{name:08}" + "x" * (MIB // 4)), 0)
    assert shelves.size <= 4 * MIB
    assert list_kept(shelves, 1, 10) == []
    assert list_kept(shelves, 8, 3) == [0, 1, 2]
    shelves.keep(9, make("large", "x" * (MIB + 1)), 0)
    assert shelves.find(9, "large", 0) is None
    shelves.reconfigure(Responses(60, 0), 0)
    assert shelves.size == 0


def test_what_is_too_old_leaves() -> None:
    shelves = Shelves(Responses(1, 32))
    for name, at in (("a", 0), ("b", 30)):
        shelves.keep(1, make(name, f"{name}        "), at)
    assert shelves.next_end == 60
    assert shelves.find(1, "a", 59)
    assert not shelves.find(1, "a", 60)
    assert shelves.find_item(1, "b       ", 60)
    assert not shelves.find_item(1, "a       ", 60)
    assert (shelves.next_end, shelves.size > 0) == (90, True)
    shelves.expire(90)
    assert shelves.next_end is None
    assert shelves.size == 0


def test_an_item_is_found_as_long_as_a_response_has_it() -> None:
    """Whatever the latest one to have it told, and in whichever order they leave."""
    texts = {name: f"msg_0001 {name}" for name in "abc"}
    for order in permutations(texts):
        shelves = Shelves(Responses(60, 32))
        for name in ("c", "a", "b", "c"):
            shelves.keep(1, make(name, texts[name]), 0)
        left = ["a", "b", "c"]  # the latest last
        for name in order:
            found = shelves.find_item(1, "msg_0001", 0)
            assert found is not None
            assert found.data == texts[left[-1]].encode()
            assert shelves.drop(1, name)
            left.remove(name)
        assert shelves.find_item(1, "msg_0001", 0) is None
        assert shelves.size == 0


def test_nothing_is_left_of_what_was_dropped() -> None:
    """Whatever is kept, kept anew under the same name, and dropped, sizes and items follow."""
    dice, shelves = random.Random(7), Shelves(Responses(60, 4))
    for now in range(3000):
        account, name = dice.randrange(3), str(dice.randrange(20))
        texts = [f"{dice.randrange(30):08}" * dice.choice((1, 40)) for _ in range(4)]
        if dice.random() < 0.7:
            shelves.keep(account, make(name, *texts, *texts[:1]), now)
            assert shelves.find_item(account, texts[0][:8], now)
        else:
            had = shelves.find(account, name, now) is not None
            assert shelves.drop(account, name) == had
    for account in range(3):
        for number in range(20):
            shelves.drop(account, str(number))
    assert (shelves.size, shelves.next_end) == (0, None)
    assert not any(shelves.find_item(1, f"{number:08}", 3000) for number in range(30))
