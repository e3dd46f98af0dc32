"""Upgrades that are killed at any instant, or meet a full disk; what others are told meanwhile."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.base.turns import spawn
from gateway.ledger.opening import check_ledger, open_books
from gateway.ledger.records import LedgerError
from gateway.ledger.sqlite import schema, upgrades
from gateway.ledger.sqlite.files import FILE_MODE, marked, take_lock
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving import open_sqlite
from gateway.ledger.versions import VERSION
from tests.ledger.kit import query

OLD = Path(__file__).parent / "old/14.sql"

TRIES = """
import os, resource, shutil, signal, sqlite3, sys
from contextlib import closing
from pathlib import Path
from gateway.ledger.records import LedgerError
from gateway.ledger.sqlite import schema

path, old, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
open_file, left = schema._open, 0

def count(sql="BEGIN"):
    global left
    left -= sql.startswith(("BEGIN", "DROP TABLE", "COMMIT", "VACUUM"))
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def hear(event, _):
    if event in ("open", "os.remove", "os.rename", "sqlite3.connect"):
        count()

def open_traced(*args, **named):
    connection = open_file(*args, **named)
    connection.set_trace_callback(count)
    return connection

def limit(instant):
    global left
    if kind == "killed":
        left, schema._open = instant, open_traced
        sys.addaudithook(hear)
    else:
        sys.dont_write_bytecode = True  # a compiled module that was cut short would stay
        resource.setrlimit(resource.RLIMIT_FSIZE, (instant * 16384, resource.RLIM_INFINITY))

def upgrade(instant):
    pid = os.fork()
    if pid == 0:
        limit(instant)
        try:
            schema.connect(path).close()
        except LedgerError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]

def read(path):
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return sorted(connection.iterdump())

reset = lambda: (path.unlink(missing_ok=True), shutil.copy(old, path))
reset()
schema.connect(path).close()
before, after, instant, failed = read(old), read(path), 0, 0
path.with_name(path.name + ".version-14").unlink()
reset()
while True:
    instant += 1
    status = upgrade(instant)
    copies = list(path.parent.glob("g.db.version-*"))
    found = read(path)
    assert found in (before, after), instant
    assert len(copies) <= 1 and all(read(one) == before for one in copies), (instant, copies)
    if status == 0:
        break
    failed += 1
    if found == after:
        schema.connect(path).close()  # the next start
        assert len(list(path.parent.glob("g.db.version-*"))) == 1, instant
        assert not path.with_name(path.name + ".upgrading").exists(), instant
        copies[0].unlink()
        reset()
print(failed, *sorted(one.name for one in path.parent.iterdir()))
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "gateway.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OLD.read_text(encoding="utf-8"))
    path.chmod(FILE_MODE)
    return path


@pytest.mark.parametrize(("kind", "least"), [("killed", 15), ("full", 20)])
def test_an_upgrade_that_never_ends_leaves_the_old_database_and_one_copy(
    old: Path, kind: str, least: int
) -> None:
    """Killed as it opens, renames or removes a file, begins, drops, commits; or on a disk of any size."""
    folder = old.parent / "tries"
    folder.mkdir()
    words = [sys.executable, "-c", TRIES, str(folder / "g.db"), str(old), kind]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    failed, *names = done.stdout.split()
    assert int(failed) >= least
    assert names == ["g.db", "g.db.lock", "g.db.version-14"]


@pytest.fixture
def upgrading(old: Path) -> Iterator[subprocess.Popen[str]]:
    """A command in the middle of its upgrade, which goes on when a line is written to it."""
    held = (
        "import sys; from pathlib import Path; from gateway.ledger.sqlite import schema;"
        "schema._add_extras = lambda *_: (print('held', flush=True), sys.stdin.readline());"
        "schema.connect(Path(sys.argv[1])).close()"
    )
    words, pipe = [sys.executable, "-c", held, str(old)], subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


async def test_commands_are_told_of_an_upgrade_and_a_server_waits_for_it(
    old: Path, upgrading: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "BUSY_MS", 10)
    told = rf"gateway\.db: it is being upgraded by process {upgrading.pid}; try again when"
    for use in (open_books, check_ledger):
        with pytest.raises(LedgerError, match=told):
            use(old)
    steps: list[str] = []
    monkeypatch.setattr("gateway.ledger.serving.ledger.TELL_SECONDS", 0.01)
    waiting = asyncio.Event()

    def tell(step: str) -> None:
        steps.append(step)
        waiting.set()

    served: list[int] = []

    async def serve() -> None:
        async with open_sqlite(old, tell=tell) as ledger:
            served.append(len(list(ledger.accounts())))

    serving = spawn(serve(), name="serving")
    await waiting.wait()
    assert steps[0].startswith(f"waiting, as it is being upgraded by process {upgrading.pid}")
    upgrading.communicate("go\n")
    await serving
    assert served == [3]
    assert query(old, "PRAGMA user_version") == [(VERSION,)]


def test_a_note_of_a_killed_upgrade_hides_no_gateway_that_serves(old: Path) -> None:
    """The operator has gone back to the older one."""
    upgrades._write_note(old, "gateway.db.version-14")
    lock = take_lock(old)
    assert upgrades.describe_upgrade(old) is not None
    serves = pytest.raises(LedgerError, match="a gateway of an older version serves from it")
    with marked(lock, old), serves:
        connect(old)
    os.close(lock)
