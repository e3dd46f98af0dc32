"""Changes by operators are in force in the serving process; a key and those that replace it share one cap."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from itertools import cycle, islice
from typing import Final

import pytest

from gateway.errors import BalanceHeld, InsufficientBalance
from gateway.ledger.base import Key
from gateway.ledger.key_records import EndedKey, KeyChanges, KeyTerms, TermChanges, Terms
from gateway.ledger.records import StoredSecret
from gateway.ledger.serving.ledger import ServingLedger
from gateway.times import DAY_MS
from tests.ledger.contract.implementations import Needs, needs
from tests.ledger.contract.kit import (
    NOW_MS,
    WAIT_SECONDS,
    Place,
    admission,
    charge,
    create_key,
    find_key,
    key_id_of,
    settlement,
    until,
    void,
)

ROUNDS: Final = 100
OPERATOR: Final = """
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    with place.open_books() as books:
        books.entries.post("a", "credit", 1000 + number, note="", idempotency_key=str(number))
        books.entries.post("a", "correction", -7, note="a slip")
"""


async def test_changes_are_in_force_before_long(place: Place) -> None:
    """Credits, suspensions, new accounts and keys, revocations: while the server is idle."""
    digest = place.seed(credit_nano=5000)
    async with place.serve() as ledger:
        account = find_key(ledger, digest).account
        with place.open_books() as books:
            books.entries.post("a", "credit", 250, note="")
            books.accounts.suspend("a")
            books.accounts.create("b", credit_nano=7, operator=False)
            new = create_key(books, "b")
            await until(lambda: ledger.find_key(new) is not None)
            found = find_key(ledger, new)
            assert (found.account.name, found.account.balance_nano) == ("b", 7)
            assert (account.balance_nano, account.suspended) == (5250, True)
            books.accounts.resume("a")
            books.keys.revoke(key_id_of(new))
            await until(lambda: not (account.suspended or found.is_live(NOW_MS)))


async def test_changes_are_in_force_while_the_server_is_busy(place: Place) -> None:
    """The balance that a charge brings back includes a credit; a revocation comes beside it."""
    digest = place.seed(credit_nano=5000)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        with place.open_books() as books:
            books.entries.post("a", "credit", 300, note="")
            await charge(ledger, key, 100)
            assert key.account.balance_nano == 5200
            books.keys.revoke(key_id_of(digest))
        async with asyncio.timeout(WAIT_SECONDS):
            while key.revoked_ms is None:
                await charge(ledger, key, 1)


async def test_a_key_has_its_terms_and_keeps_its_identity(place: Place) -> None:
    """All terms reach the server, when the key is created and when they are edited."""
    terms = KeyTerms(("m", "n"), 3, 4, 5, "laptop", 900, NOW_MS + DAY_MS)
    digest = place.seed(terms=terms)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        assert (key.id, key.terms) == (key_id_of(digest), terms)
        assert [key.allows(model) for model in "mnx"] == [True, True, False]
        with place.open_books() as books:
            edited = books.keys.edit(key.id, {"name": "", "models": None, "cap_nano": 7})
        await ledger.refresh()
        assert find_key(ledger, digest) is key
        assert key.terms == edited.terms == KeyTerms(None, 3, 4, 5, "", 7, NOW_MS + DAY_MS)


async def test_an_account_s_terms_reach_the_server(place: Place) -> None:
    """They are the same record as long as nothing in them changes, since limits are made from it."""
    digest, terms = place.seed(), Terms(("m",), 1, 2, 3)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        assert key.account.terms == Terms()
        with place.open_books() as books:
            changes = TermChanges(
                models=("m",), requests_per_minute=1, tokens_per_minute=2, concurrency=3
            )
            edited = books.accounts.edit("a", changes)
        await ledger.refresh()
        assert key.account.terms == edited.terms == terms
        assert [key.allows(model) for model in "mn"] == [True, False]
        known = key.terms, key.account.terms
        with place.open_books() as books:
            books.entries.post("a", "credit", 1, note="")
            books.keys.edit(key.id, {"name": ""})
        await ledger.refresh()
        assert key.terms is known[0]
        assert key.account.terms is known[1]
        with place.open_books() as books:
            books.accounts.edit("a", {"concurrency": None, "models": None})
    async with place.serve() as ledger:
        assert find_key(ledger, digest).account.terms == Terms(None, 1, 2, None)


async def test_keys_that_ended_are_not_kept_in_memory(place: Place) -> None:
    """Revoked ones go at once, expired ones when the keys have doubled; none is loaded at a start."""
    digest = place.seed()
    brief = place.add_key(terms=KeyTerms(expires_ms=NOW_MS + 10))
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        hold = ledger.hold(key, admission())
        with place.open_books() as books:
            books.keys.revoke(key.id)
        await ledger.refresh()
        assert ledger.find_key(digest) is None
        assert not key.is_live(NOW_MS), "a request in flight learns of it"
        assert await ledger.read_ended_key(digest) == EndedKey(NOW_MS, None)
        assert await ledger.read_ended_key(b"?" * 32) is None
        await ledger.settle(hold, settlement(5))
    assert place.read_balance() == 10**12 - 5
    async with place.serve(now_ms=NOW_MS + 9) as ledger:
        find_key(ledger, brief)
        assert ledger.find_key(digest) is None
    async with place.serve(now_ms=NOW_MS + 10) as ledger:
        assert ledger.find_key(brief) is None
        assert await ledger.read_ended_key(brief) == EndedKey(None, NOW_MS + 10)


async def test_a_key_expires_by_the_clock(place: Place) -> None:
    """An expired key is found as long as it is in memory, so that its holder can be told."""
    digest = place.seed(terms=KeyTerms(expires_ms=NOW_MS + 10))
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        assert key.is_live(NOW_MS + 9)
        assert not key.is_live(NOW_MS + 10)
        with place.open_books() as books:
            books.entries.post("a", "credit", 1, note="")
        await ledger.refresh()
        assert ledger.find_key(digest) is key
        with place.open_books() as books:
            first = books.keys.revoke(key.id)
        with place.open_books(now_ms=NOW_MS + 5) as books:
            assert books.keys.revoke(key.id) == first, "a revoked key keeps its time"
        await ledger.refresh()
        assert not key.is_live(NOW_MS)


@pytest.mark.slow
async def test_another_process_beside_charges_loses_and_doubles_nothing(place: Place) -> None:
    """An operator's process credits and corrects in a loop while the server charges all it can."""
    digest = place.seed()
    charges = 0
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        with place.run_process(OPERATOR, str(ROUNDS)) as operator:
            assert operator.stdin is not None
            operator.stdin.write(b"go\n")
            operator.stdin.flush()

            async def spend() -> None:
                nonlocal charges
                while operator.poll() is None:
                    await charge(ledger, key, 11, hold_nano=5)
                    charges += 1

            async with asyncio.TaskGroup() as group:
                for _ in range(32):
                    group.create_task(spend())
            assert operator.returncode == 0
        expected = 10**12 + sum(1000 + number for number in range(ROUNDS)) - 7 * ROUNDS
        expected -= 11 * charges
        await until(lambda: key.account.balance_nano == expected)
        assert (key.spent_nano, key.account.held_nano) == (11 * charges, 0)
        assert ledger.writable
    print(f"{charges} charges beside {2 * ROUNDS} of the operator")
    assert charges > ROUNDS
    assert place.read_balance() == expected
    place.assert_sound()


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
