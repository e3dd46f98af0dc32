"""A key and those that replace it share one cap, however often it is rotated."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import cycle, islice

import pytest

from gateway.errors import BalanceHeld, InsufficientBalance
from gateway.ledger.base import Key
from gateway.ledger.key_records import KeyChanges, KeyTerms
from gateway.ledger.records import StoredSecret
from gateway.ledger.serving.ledger import ServingLedger
from gateway.times import DAY_MS
from tests.ledger.contract.implementations import Needs, needs
from tests.ledger.contract.kit import (
    NOW_MS,
    Place,
    admission,
    charge,
    find_key,
    key_id_of,
    settlement,
    void,
)

CAP_NANO = 1000
DIGESTS = [bytes([number]) * 32 for number in range(1, 4)]


async def rotate(place: Place, ledger: ServingLedger, digest: bytes, new: bytes) -> Key:
    with place.open_books() as books:
        secret = StoredSecret(key_id_of(new), new, "last")
        books.keys.replace(key_id_of(digest), secret, grace_ms=DAY_MS)
    await ledger.refresh()
    return find_key(ledger, new)


async def rotate_thrice(place: Place, ledger: ServingLedger, digest: bytes) -> list[Key]:
    """Return four keys that all work: the last without end, the others until their grace is over."""
    made = [find_key(ledger, digest)]
    for old, new in zip([digest, *DIGESTS], DIGESTS, strict=False):
        made.append(await rotate(place, ledger, old, new))
    terms = KeyTerms(("demo/echo",), name="n", cap_nano=CAP_NANO)
    ended = replace(terms, expires_ms=NOW_MS + DAY_MS)
    assert [key.terms for key in made] == [ended, ended, ended, terms]
    return made


async def spend_all(ledger: ServingLedger, keys: list[Key], cost_nano: int) -> int:
    """Let each key in turn pay until all of them are refused; return what was charged."""
    charged = 0
    for key in islice(cycle(keys), 100):
        with suppress(InsufficientBalance):
            await charge(ledger, key, cost_nano, hold_nano=cost_nano)
            charged += cost_nano
    return charged


def seed(place: Place) -> bytes:
    return place.seed(terms=KeyTerms(("demo/echo",), name="n", cap_nano=CAP_NANO))


async def test_four_keys_spend_one_cap(place: Place) -> None:
    digest = seed(place)
    async with place.serve() as ledger:
        keys = await rotate_thrice(place, ledger, digest)
        assert await spend_all(ledger, keys, 70) == 15 * 70, "the last request may go beyond"
        assert {key.spent_nano for key in keys} == {15 * 70}
        for key in keys:
            with pytest.raises(InsufficientBalance, match="spending cap is reached"):
                ledger.hold(key, admission(0))
    with place.open_books() as books:
        views = [books.keys.read(key_id_of(one)) for one in (digest, *DIGESTS)]
    assert {(view.spent_nano, view.terms.cap_nano) for view in views} == {(15 * 70, CAP_NANO)}
    place.assert_sound()


async def test_what_one_key_holds_is_held_of_all(place: Place) -> None:
    digest = seed(place)
    async with place.serve() as ledger:
        first, *others = await rotate_thrice(place, ledger, digest)
        hold = ledger.hold(first, admission(CAP_NANO))
        await ledger.confirm(hold)
        for key in others:
            with pytest.raises(BalanceHeld):
                await ledger.confirm(ledger.hold(key, admission(1)))
        await ledger.settle(hold, void())
        await charge(ledger, others[-1], 5)
    place.assert_sound()


async def test_a_cap_is_edited_for_all_that_share_it(place: Place) -> None:
    digest = seed(place)
    async with place.serve() as ledger:
        keys = await rotate_thrice(place, ledger, digest)
        await charge(ledger, keys[0], 600)
        for cap_nano in (600, None, 601):
            with place.open_books() as books:
                books.keys.edit(key_id_of(DIGESTS[1]), KeyChanges(cap_nano=cap_nano))
            await ledger.refresh()
            assert [key.terms.cap_nano for key in keys] == [cap_nano] * 4
        assert await spend_all(ledger, keys, 1) == 1
    place.assert_sound()


async def test_the_first_key_may_end_before_the_others(place: Place) -> None:
    """Its row has the sum of them all, long after it was revoked."""
    digest = seed(place)
    async with place.serve() as ledger:
        keys = await rotate_thrice(place, ledger, digest)
        hold = ledger.hold(keys[0], admission(50))
        with place.open_books() as books:
            books.keys.revoke(key_id_of(digest))
        await ledger.refresh()
        assert ledger.find_key(digest) is None
        await ledger.settle(hold, settlement(600))
        assert await spend_all(ledger, keys[1:], 100) == 400
    place.assert_sound()
    async with place.serve() as ledger:
        assert find_key(ledger, DIGESTS[2]).spent_nano == CAP_NANO


@needs(Needs.NODES)
async def test_two_nodes_share_the_cap_of_rotated_keys(place: Place) -> None:
    digest = seed(place)
    async with place.serve() as one, place.serve() as two:
        await rotate(place, one, digest, DIGESTS[0])
        await two.refresh()
        old, new = find_key(one, digest), find_key(two, DIGESTS[0])
        await charge(one, old, 700)
        hold = two.hold(new, admission(300))
        await two.confirm(hold)
        with pytest.raises(BalanceHeld):
            await one.confirm(one.hold(old, admission(1)))
        await two.settle(hold, settlement(300))
        with pytest.raises(InsufficientBalance):
            await one.confirm(one.hold(old, admission(1)))
    place.assert_sound()
