"""Database files that go away, come back or have two names while a gateway serves from them."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from gateway.admin import accounts
from gateway.errors import LedgerUnavailable
from gateway.ledger import LedgerError, LedgerLocked
from gateway.ledger.sqlite.files import is_served, mark_lock
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from tests.ledger.kit import admission, assert_sound, charge, find_key, make_place, until

CREDIT = 10**12


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("replaced", [False, True])
async def test_nothing_is_spent_while_a_file_is_missing_or_another(
    suffix: str, replaced: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is written then would be lost. Once the file is back, all goes on."""
    place = make_place(tmp_path, credit_nano=CREDIT)
    file = place.path.with_name(place.path.name + suffix)
    aside = tmp_path / "aside"
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        await charge(ledger, key, 5)
        file.rename(aside)
        if replaced:
            file.write_bytes(aside.read_bytes())
        await until(lambda: not ledger.writable)
        with pytest.raises(LedgerUnavailable):
            ledger.hold(key, admission())
        assert [one.levelno for one in caplog.records] == [logging.CRITICAL]
        assert f"/proc/{os.getpid()}/fd" in caplog.text
        aside.replace(file)
        await until(lambda: ledger.writable)
        await charge(ledger, key, 5)
    assert_sound(place.path)


async def test_the_operator_does_not_write_to_a_file_that_replaced_the_one_served(
    tmp_path: Path,
) -> None:
    place = make_place(tmp_path, credit_nano=CREDIT)
    aside = tmp_path / "aside"
    async with SqliteLedger.open(place.path):
        aside.write_bytes(place.path.read_bytes())
        aside.replace(place.path)
        with (
            pytest.raises(LedgerError, match="serves from another file"),
            accounts.open_books(place.path),
        ):
            pass
    with accounts.open_books(place.path) as books:  # a backup that was put in its place
        assert books.audit().ok


@pytest.mark.parametrize("suffix", ["-wal", ".lock"])
async def test_no_new_database_is_made_where_there_was_one(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    if suffix == "-wal":
        path.with_name("gateway.db-wal").touch()
    else:
        async with SqliteLedger.open(path):
            pass
        path.unlink()
    with pytest.raises(LedgerError, match=f"gateway.db{suffix} shows that there was one"):
        async with SqliteLedger.open(path):
            pass
    assert not path.exists()


async def test_a_symbolic_link_is_the_same_database(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    other = tmp_path / "link.db"
    other.symlink_to(place.path)
    async with SqliteLedger.open(place.path):
        with pytest.raises(LedgerLocked):
            async with SqliteLedger.open(other):
                pass
    async with SqliteLedger.open(other) as ledger:
        assert ledger.writable


async def test_a_hard_link_is_refused(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    other = tmp_path / "link.db"
    other.hardlink_to(place.path)
    for path in (place.path, other):
        with pytest.raises(LedgerError, match="2 names"):
            async with SqliteLedger.open(path):
                pass


def test_a_lock_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    lock = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(LedgerError, match=r"gateway\.db\.lock: "):
        mark_lock(lock, tmp_path / "gateway.db")
    os.close(lock)


async def test_it_is_told_whether_a_process_serves_from_a_database(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    assert not is_served(path), "there is no lock file"
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path):
        assert is_served(place.path)
    assert not is_served(place.path)
