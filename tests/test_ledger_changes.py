"""What other processes commit: seen within a second, and nothing of either side is lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from ledger_kit import assert_sound, charge, find_key, make_place, query, until

from gateway import accounts, apikeys
from gateway.ledger.sqlite import SqliteLedger

SEEN_SECONDS = 1

ROUNDS = 100
OPERATOR = """
import sys
from pathlib import Path
from gateway import accounts
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2])):
    with accounts.open_books(Path(sys.argv[1])) as books:
        accounts.credit(books, "a", 1000 + number, idempotency_key=str(number))
        accounts.correct(books, "a", -7, note="a slip")
"""


async def test_changes_of_others_are_seen_within_a_second(tmp_path: Path) -> None:
    """Credits, suspensions, new accounts and keys, revocations: while the server is idle."""
    place = make_place(tmp_path, credit_nano=5000)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        with accounts.open_books(place.path) as books:
            accounts.credit(books, "a", 250)
            await until(lambda: key.account.balance_nano == 5250, SEEN_SECONDS)
            accounts.suspend(books, "a")
            await until(lambda: key.account.suspended, SEEN_SECONDS)
            accounts.resume(books, "a")
            await until(lambda: not key.account.suspended, SEEN_SECONDS)
            accounts.add_account(books, "b", credit_nano=7)
            new = accounts.add_key(books, "b", models=["m"], cap_nano=9, requests_per_minute=3)
            digest = apikeys.digest(new.secret)
            await until(lambda: ledger.find_key(digest) is not None, SEEN_SECONDS)
            found = ledger.find_key(digest)
            assert found is not None
            assert (found.account.name, found.account.balance_nano) == ("b", 7)
            assert (found.models, found.cap_nano, found.requests_per_minute) == (
                frozenset({"m"}),
                9,
                3,
            )
            accounts.rotate_key(books, place.key_id, grace_seconds=60)
            await until(lambda: key.expires_ms is not None, SEEN_SECONDS)
            accounts.revoke_key(books, new.key.id)
            await until(lambda: found.revoked_ms is not None, SEEN_SECONDS)
    assert query(place.path, "SELECT count(*) > 0 FROM changes") == [(1,)]
    async with SqliteLedger.open(place.path):
        assert query(place.path, "SELECT count(*) FROM changes") == [(0,)]
        with accounts.open_books(place.path) as books:
            accounts.credit(books, "a", 1)
        assert query(place.path, "SELECT seq > 8 FROM changes") == [(1,)], "numbers never return"


async def test_changes_are_seen_while_the_server_is_busy(tmp_path: Path) -> None:
    """The balance that a charge brings back has the credit in it; a key's cap comes by the poll."""
    place = make_place(tmp_path, credit_nano=5000)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        with accounts.open_books(place.path) as books:
            accounts.credit(books, "a", 300)
            await charge(ledger, key, 100)
            assert key.account.balance_nano == 5200
            accounts.revoke_key(books, place.key_id)
        async with asyncio.timeout(SEEN_SECONDS):
            while key.revoked_ms is None:
                await charge(ledger, key, 1)


async def test_credits_beside_charges_lose_and_double_nothing(tmp_path: Path) -> None:
    """An operator's process credits and corrects in a loop while the server charges all it can."""
    place = make_place(tmp_path, credit_nano=10**12)
    operator = subprocess.Popen(  # noqa: ASYNC220 - started before the race, and it waits for us
        [sys.executable, "-c", OPERATOR, str(place.path), str(ROUNDS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert operator.stdin is not None
    assert operator.stdout is not None
    assert operator.stdout.readline() == b"ready\n"
    charges = 0
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        operator.stdin.write(b"go\n")
        operator.stdin.close()

        async def spend() -> None:
            nonlocal charges
            while operator.poll() is None:
                await charge(ledger, key, 11, hold_nano=5)
                charges += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(32):
                group.create_task(spend())
        operator.stdout.close()
        assert operator.returncode == 0
        expected = 10**12 + sum(1000 + number for number in range(ROUNDS)) - 7 * ROUNDS
        expected -= 11 * charges
        await until(lambda: key.account.balance_nano == expected, SEEN_SECONDS)
        assert (key.spent_nano, key.account.held_nano) == (11 * charges, 0)
        assert ledger.writable
    print(f"{charges} charges beside {2 * ROUNDS} of the operator")
    assert charges > ROUNDS
    assert query(place.path, "SELECT sum(amount_nano) FROM entries") == [(expected,)]
    assert_sound(place.path)
