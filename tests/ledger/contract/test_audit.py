"""The audit proves what is right, nothing is served from what is wrong, and large sums are exact."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from gateway.base.money import MAX_AMOUNT_NANO
from gateway.base.times import DAY_MS
from gateway.ledger.base import Key
from gateway.ledger.call_records import Spent
from gateway.ledger.records import LedgerMismatch
from gateway.ledger.serving.ledger import ServingLedger
from tests.ledger.contract.implementations import Needs, needs
from tests.ledger.contract.kit import NOW_MS, Place, admission, charge, find_key, settlement, void
from tests.support.extras import need_extra


async def write_history(place: Place) -> bytes:
    """Ten charges, a void, a credit and a correction."""
    digest = place.seed(credit_nano=100_000)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        for _ in range(10):
            await charge(ledger, key, 70)
        await ledger.settle(ledger.hold(key, admission()), void())
    with place.open_books() as books:
        books.entries.post("a", "credit", 5, note="")
        books.entries.post("a", "correction", -3, note="n")
    return digest


async def test_sound_books_pass_and_become_a_checkpoint(place: Place) -> None:
    """While they are served from, with a request in flight."""
    digest = await write_history(place)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        await charge(ledger, key, 70)
        await ledger.wait_admitted(ledger.hold(key, admission()))
        prove(place)
    assert place.read_balance() == 100_000 - 770 + 2
    assert sum(entry.amount_nano for entry in place.read_entries()) == place.read_balance()


def prove(place: Place) -> None:
    with place.open_books(now_ms=NOW_MS + 5) as books:
        assert books.find_last_checkpoint_ms() != NOW_MS + 5
        report = books.audit()
        assert (report.ok, report.problems) == (True, ())
        assert (report.accounts, report.entries, report.pending) == (1, 14, 1)
        assert (report.interrupted, report.unsettled, report.to_settle) == (0, 0, ())
        assert books.find_last_checkpoint_ms() == NOW_MS + 5


async def test_spoiled_books_are_named_and_not_served_from(place: Place) -> None:
    await write_history(place)
    with place.open_books(now_ms=NOW_MS + 5) as books:
        books.audit()
    place.storage.spoil()
    with place.open_books(now_ms=NOW_MS + 6) as books:
        report = books.audit()
        assert not report.ok
        assert any("account a" in problem for problem in report.problems)
        assert books.find_last_checkpoint_ms() == NOW_MS + 5, "a failure is no checkpoint"
    with pytest.raises(LedgerMismatch, match="account a"):
        async with place.serve():
            pass


@needs(Needs.FILES)
async def test_a_backup_is_a_ledger_of_that_moment(place: Place) -> None:
    digest = place.seed(credit_nano=5000)
    target = Path(place.location).with_name("copy.db")
    copy = Place(place.implementation, str(target))
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        await charge(ledger, key, 100)
        with place.open_books() as books:
            assert books.back_up(target) > 0
            backup = books.find_last_event("ledger.backup")
            assert backup is not None
            assert (backup.at_ms, backup.target) == (NOW_MS, "copy.db")
        await charge(ledger, key, 100)
    assert (place.read_balance(), copy.read_balance()) == (4800, 4900)
    copy.assert_sound()
    async with copy.serve() as ledger:
        await charge(ledger, find_key(ledger, digest), 1)


KEYS: Final = 3
CHARGES: Final = 6
SUM_NANO: Final = KEYS * CHARGES * MAX_AMOUNT_NANO
TODAY: Final = NOW_MS // DAY_MS


async def spend(place: Place) -> None:
    """Charge 18 × 10⁹ units, twice what an integer of 64 bits holds, to one account."""
    assert SUM_NANO > 2**63
    digests = [place.seed(credit_nano=MAX_AMOUNT_NANO)]
    digests += [place.add_key() for _ in range(1, KEYS)]
    async with place.serve() as ledger:
        for digest in digests * CHARGES:
            await charge_most(place, ledger, find_key(ledger, digest))


async def charge_most(place: Place, ledger: ServingLedger, key: Key) -> None:
    """Charge as much as one request can cost, and credit it again."""
    most = MAX_AMOUNT_NANO
    end = settlement(most, provider_cost_nano=most, reported_cost_nano=most)
    await ledger.settle(ledger.hold(key, admission()), end)
    with place.open_books() as books:
        books.entries.post("a", "credit", most, note="")
    await ledger.refresh()


@need_extra("reports")
async def test_the_sums_of_an_account_are_exact(place: Place) -> None:
    await spend(place)
    place.assert_sound()
    with place.open_books() as books:
        account_id = books.accounts.find_id("a")
        standings = import_module("gateway.extras.reports.standings")
        standing = standings.StandingBook(books).read_standing(account_id, today=TODAY)
        assert standing.spent == Spent(SUM_NANO, SUM_NANO, SUM_NANO)
