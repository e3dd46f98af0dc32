"""The files of a database: the lock, lost files, and why they cannot be used, in words for operators."""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import sqlite3
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest

from gateway.base.errors import LedgerUnavailable
from gateway.ledger.opening import open_books
from gateway.ledger.records import FilesLost, LedgerError, LedgerLocked
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.faults import describe, explain
from gateway.ledger.sqlite.files import FileWatch, find_server, is_served, marked, take_lock
from gateway.ledger.sqlite.serving import open_sqlite
from tests.ledger.contract.kit import admission, charge, until
from tests.ledger.kit import Place, assert_sound, find_key, make_place, serving
from tests.support.rows import each_row

pytestmark = pytest.mark.usefixtures("quick_polls")

CREDIT = 10**12


@pytest.mark.parametrize(
    ("suffix", "replaced"), [("", False), ("", True), ("-wal", True), ("-shm", False)]
)
async def test_nothing_is_spent_while_a_file_is_missing_or_another(
    suffix: str, replaced: bool, place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Writes would be lost then. Once the file is back, all goes on."""
    file = place.path.with_name(place.path.name + suffix)
    aside = tmp_path / "aside"
    async with serving(place) as (ledger, key):
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


def test_a_glance_notices_a_gateway_that_began_to_serve_from_others(
    place: Place, tmp_path: Path
) -> None:
    """Nothing changed but the mark, which is all that tells of it."""
    lock = take_lock(place.path)
    with SqliteBooks(place.path), marked(lock, place.path):
        watch = FileWatch(place.path)
        watch.check()
        (tmp_path / "gateway.db.lock").write_text("1 1:1 1:2 1:3")
        for _ in range(2):
            with pytest.raises(FilesLost):
                watch.check()
    os.close(lock)


@each_row("is_still", [False, True])
@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
def test_a_brief_check_notices_a_name_that_goes(
    tmp_path: Path, end: str, *, is_still: bool
) -> None:
    """The age of the folder makes no difference."""
    place = make_place(tmp_path)
    file, aside = tmp_path / f"gateway.db{end}", tmp_path / "aside"
    with SqliteBooks(place.path):
        watch = FileWatch(place.path)
        for _ in range(2):
            if is_still:
                os.utime(tmp_path, (1, 1))
            watch.check()
            watch.check(is_brief=True)
            file.rename(aside)
            with pytest.raises(FilesLost):
                watch.check(is_brief=True)
            aside.rename(file)


@each_row("served", [False, True])
async def test_nothing_is_committed_if_a_file_goes_away_meanwhile(
    served: bool, tmp_path: Path
) -> None:
    """The rescue that is told is of the serving process; a command has its files for a moment."""
    place = make_place(tmp_path)
    log, aside = tmp_path / "gateway.db-wal", tmp_path / "aside"
    async with AsyncExitStack() as stack:
        if served:
            await stack.enter_async_context(open_sqlite(place.path))
        books = stack.enter_context(SqliteBooks(place.path))

        def change() -> None:
            with books.changing():
                books.note("test", account=None)
                log.rename(aside)

        with pytest.raises(FilesLost, match="was removed or replaced") as raised:
            change()
        assert ("/proc/" in str(raised.value)) == served
        aside.rename(log)
        assert books.find_last_event("test") is None


async def test_the_operator_does_not_write_to_a_file_that_replaced_the_one_served(
    place: Place, tmp_path: Path
) -> None:
    """Once nobody serves, it is a backup that was put in its place, and can be served."""
    aside = tmp_path / "aside"
    async with open_sqlite(place.path):
        aside.write_bytes(place.path.read_bytes())
        aside.replace(place.path)
        with pytest.raises(FilesLost), open_books(place.path):
            pass
    for name in ("gateway.db-wal", "gateway.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    assert_sound(place.path)
    async with open_sqlite(place.path) as ledger:
        assert ledger.writable


async def test_what_a_killed_gateway_had_open_is_of_no_account(
    place: Place, tmp_path: Path
) -> None:
    """A command may have removed its log since. A start tells others so before it opens the files."""
    lock_path = tmp_path / "gateway.db.lock"
    lock_path.write_text("1 1:1 1:2 1:3")
    assert_sound(place.path)
    lock = take_lock(place.path)
    assert_sound(place.path)
    os.close(lock)
    lock_path.write_text("1 1:1 1:2 1:3")
    async with open_sqlite(place.path) as ledger:
        assert ledger.writable
        assert_sound(place.path)


def test_files_may_go_away_once_they_are_being_closed(place: Place) -> None:
    """SQLite removes the log when it closes, and the lock goes only after that."""
    lock = take_lock(place.path)
    with SqliteBooks(place.path), marked(lock, place.path):
        pass
    assert not place.path.with_name("gateway.db-wal").exists()
    assert_sound(place.path)
    os.close(lock)


def test_a_program_that_looks_whether_somebody_serves_keeps_no_gateway_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the lock for microseconds."""
    looks = os.open(tmp_path / "gateway.db.lock", os.O_CREAT | os.O_RDONLY)
    fcntl.flock(looks, fcntl.LOCK_SH)
    clock = SimpleNamespace(sleep=lambda _: os.close(looks))
    monkeypatch.setattr("gateway.ledger.sqlite.files.time", clock)
    os.close(take_lock(tmp_path / "gateway.db"))


@each_row("suffix, is_empty", list(itertools.product(["-wal", ".lock"], [False, True])))
async def test_no_new_database_is_made_where_there_was_one(
    suffix: str, is_empty: bool, tmp_path: Path
) -> None:
    """A copy on a full disk leaves an empty file, which is none, for commands, too."""
    path = tmp_path / "gateway.db"
    if suffix == "-wal":
        path.with_name("gateway.db-wal").touch()
    else:
        async with open_sqlite(path):
            pass
        path.unlink()
    if is_empty:
        path.touch()
    with pytest.raises(LedgerError, match=f"gateway.db{suffix} shows that there was one"):
        async with open_sqlite(path):
            pass
    if is_empty:
        with pytest.raises(LedgerError, match="the file is empty, but"):
            SqliteBooks(path)
    assert path.exists() == is_empty


async def test_a_symbolic_link_is_the_same_database(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "link.db"
    other.symlink_to(place.path)
    async with open_sqlite(place.path):
        with pytest.raises(LedgerLocked):
            async with open_sqlite(other):
                pass
    async with open_sqlite(other) as ledger:
        await charge(ledger, find_key(ledger, place), 5)
        await until(lambda: ledger.log_bytes > 0)
        with SqliteBooks(other) as books:
            assert books.measure()[1] > 0


async def test_a_hard_link_is_refused_but_beside_a_gateway_that_serves(
    place: Place, tmp_path: Path
) -> None:
    """A snapshot may be made of hard links: only the name by which it serves has its log."""
    other = tmp_path / "link.db"
    async with open_sqlite(place.path):
        other.hardlink_to(place.path)
        assert_sound(place.path)
        with pytest.raises(LedgerError, match="2 names"):
            open_books(other)
    for path in (place.path, other):
        with pytest.raises(LedgerError, match="2 names"):
            async with open_sqlite(path):
                pass
    with pytest.raises(LedgerError, match="2 names"):
        open_books(place.path)


def test_a_lock_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    lock = os.open(tmp_path, os.O_RDONLY)
    with (
        pytest.raises(LedgerError, match=r"gateway\.db\.lock: "),
        marked(lock, tmp_path / "gateway.db"),
    ):
        pass
    os.close(lock)


async def test_it_is_told_whether_a_process_serves_from_a_database(
    place: Place, tmp_path: Path
) -> None:
    path = tmp_path / "gateway.db"
    assert not is_served(path), "there is no lock file"
    async with open_sqlite(place.path):
        assert is_served(place.path)
    assert not is_served(place.path)


async def test_the_process_that_serves_is_found_by_its_start(place: Place, tmp_path: Path) -> None:
    """Its id alone may be that of another one: outside its container, or after a kill."""
    lock = tmp_path / "gateway.db.lock"
    with SqliteBooks(place.path):
        assert find_server(place.path) is None
        async with open_sqlite(place.path):
            assert find_server(place.path) == os.getpid()
            mark = lock.read_text()
            process, _, files = mark.partition(" ")
            pid, _, started = process.partition(":")
            for other in (f"{pid}:{int(started) - 1}", f"1:{started}"):
                lock.write_text(f"{other} {files}")
                assert find_server(place.path) is None
            lock.write_text(mark)
            assert find_server(place.path) == os.getpid()
        assert find_server(place.path) is None, "it ended"


async def test_where_proc_hides_the_process_its_id_has_to_do(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of a sandboxed unit see no other process, but may send it a signal."""
    async with open_sqlite(place.path):
        monkeypatch.setattr("gateway.ledger.sqlite.files._read_start", lambda _: "")
        assert find_server(place.path) == os.getpid()


PATH: Final = Path("/srv/gateway.db")


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("its words")
    error.sqlite_errorcode = code
    return error


def test_an_io_error_on_a_full_disk_is_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite says so where it cannot make the file that its processes share."""
    errors = [*map(sqlite_error, (sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR))]
    for error in errors:
        assert "the disk fails" in str(explain(tmp_path / "gateway.db", error))
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((4096, 4096, *[0] * 9)))
    for error in errors:
        assert "the disk is full" in str(explain(tmp_path / "gateway.db", error))


def test_a_missing_folder_for_temporary_files_is_no_broken_disk() -> None:
    """A container may have a read-only root and no /tmp; the database is well."""
    assert "SQLITE_TMPDIR" in describe(sqlite_error(sqlite3.SQLITE_IOERR_GETTEMPPATH))
