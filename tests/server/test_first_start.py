"""Starts: the first one leads to the first reply, and one that fails says why in one sentence."""

from __future__ import annotations

import errno
import io
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest

from gateway.base import ids
from gateway.base.process import ExitCode, describe_version
from gateway.dialects.wire.records import DEFAULT_KIND
from gateway.extension import find_extras, find_kinds
from gateway.ledger.opening import open_books
from gateway.ledger.versions import VERSION
from gateway.server.first_start import CannotShow, find_key_file, start_first
from tests import ROOT
from tests.support.books import Books, read_events
from tests.support.process import GatewayProcess, free_port
from tests.support.running import find_first_key, start_newcomer
from tests.support.settings import load
from tests.support.stand_in import URL, stand_in

ADDRESS = "127.0.0.1:8080"


def start(folder: Path, prefix: str = "") -> subprocess.CompletedProcess[str]:
    config = folder / "gateway.toml"
    config.write_text(
        f'[server]\nport = {free_port()}\n[billing]\ndemo_credit = 5\n[providers.demo]\ndialect = "demo"\n'
        '[models."demo/echo"]\nroutes = ["demo/echo"]\nprice = "free"\n',
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "gateway", "--config", str(config)]
    # Coverage, if it is measured, would need room for its own file.
    environment = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    # Python keeps compiled modules that were cut short by a full disk, and the next start reads them.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return subprocess.run(
        ["sh", "-c", f'{prefix}exec "$@"', "", *command],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


@pytest.mark.parametrize(
    "blocks", [8, *(pytest.param(blocks, marks=pytest.mark.daily) for blocks in (0, 1, 64))]
)
def test_a_disk_without_room_is_no_traceback(tmp_path: Path, blocks: int) -> None:
    """Blocks of 512 or 1,024 bytes that a file may have: each limit ends another step of a start."""
    done = start(tmp_path, f"ulimit -f {blocks}; ")
    assert done.returncode == ExitCode.UNAVAILABLE, done.stderr
    first, line = done.stderr.splitlines()
    assert first.endswith(f" INFO gateway.serve gateway {describe_version(VERSION)}")
    assert "ERROR gateway.serve" in line
    assert "; " in line, "it says what to do"


def test_what_a_first_start_makes_is_noted_under_its_own_name(tmp_path: Path) -> None:
    config = load(tmp_path, "[billing]\ndemo_credit = 5\n")
    assert start_first(config, ADDRESS)
    with open_books(config.storage.path) as books:
        events = read_events(books, 9)
    assert {event.actor for event in events} == {"first start"}
    extras = [one for one in find_extras().values() if one.first_start is not None]
    assert len(events) == 3 + len(extras)


def test_two_first_starts_on_one_database_make_accounts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later one goes on as a normal start, even if it found no account a moment before."""
    stand_in(monkeypatch, tmp_path / "shared.db")
    config = load(tmp_path, f'[storage]\nurl = "{URL}"\n[billing]\ndemo_credit = 5\n')
    with open_books(tmp_path / "shared.db", create=True), ThreadPoolExecutor() as threads:
        starts = [threads.submit(start_first, config, ADDRESS) for _ in range(2)]
        assert [one.result() is None for one in starts].count(True) == 1
    assert start_first(config, ADDRESS) is None
    with open_books(tmp_path / "shared.db") as books:
        assert [one.name for one in books.accounts.read_all()] == ["default", "operator"]
        assert len(books.keys.read_all()) == 1
    assert not (tmp_path / "gateway.db").exists()


@pytest.mark.parametrize(
    ("storage", "folder", "place"),
    [
        (f'url = "{URL}"', "", "gateway.db.first-key"),
        (f'url = "{URL}"', "state", "state/gateway.db.first-key"),
        (f'url = "{URL}"', "state:second", "state/gateway.db.first-key"),
        ('path = "books/x.db"', "state", "books/x.db.first-key"),
    ],
)
def test_the_first_key_is_where_the_service_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: str, folder: str, place: str
) -> None:
    stand_in(monkeypatch, tmp_path / "shared.db")
    monkeypatch.setenv("STATE_DIRECTORY", folder and f"{tmp_path}/{folder}")
    assert find_key_file(load(tmp_path, f"[storage]\n{storage}\n")) == tmp_path / place


def test_a_first_start_that_cannot_show_its_key_makes_nothing(tmp_path: Path) -> None:
    """The next one is the first, as it is if one is killed before its key is shown."""
    config = load(tmp_path, "[billing]\ndemo_credit = 5\n")
    path = find_key_file(config)
    path.mkdir()
    with pytest.raises(
        CannotShow, match=f"^{re.escape(str(path))}: cannot be written: .* start again"
    ):
        start_first(config, ADDRESS)
    with open_books(config.storage.path) as books:
        assert books.accounts.read_all() == []
        assert read_events(books, 9) == []
    path.rmdir()
    first = start_first(config, ADDRESS)
    assert first is not None
    assert "sk-" not in repr(first)
    assert first.secret in path.read_text()


class GoneTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def write(self, _: str) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_terminal_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(tmp_path, "[billing]\ndemo_credit = 5\n")
    monkeypatch.setattr(sys, "stderr", GoneTerminal())
    with pytest.raises(CannotShow, match="the terminal: cannot be written"):
        start_first(config, ADDRESS)
    with open_books(config.storage.path) as books:
        assert books.accounts.read_all() == []


def test_without_stderr_the_key_is_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor may close all descriptors of a service."""
    config = load(tmp_path, "[billing]\ndemo_credit = 5\n")
    monkeypatch.setattr(sys, "stderr", None)
    first = start_first(config, ADDRESS)
    assert first is not None
    assert first.secret in find_key_file(config).read_text()


@pytest.mark.parametrize(
    "content",
    [b"SQLite format 3\0" + b"\xff" * 4080, pytest.param(b"\0" * 4096, marks=pytest.mark.daily)],
)
def test_an_unreadable_database_is_no_traceback(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "gateway.db").write_bytes(content)
    done = start(tmp_path)
    assert done.returncode == ExitCode.UNAVAILABLE, done.stderr
    _, line = done.stderr.splitlines()
    assert "restore a backup" in line


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway in an empty folder with the shipped gateway.toml, for all these tests."""
    gateway = start_newcomer(tmp_path_factory.mktemp("newcomer"))
    yield gateway
    gateway.stop()


async def test_newcomer_gets_an_answer(newcomer: GatewayProcess) -> None:
    path, key = find_first_key(newcomer)
    assert path.stat().st_mode & 0o777 == 0o600
    assert newcomer.database.stat().st_mode & 0o777 == 0o600
    assert key not in newcomer.log
    async with openai.AsyncOpenAI(base_url=newcomer.base_url, api_key=key, max_retries=0) as client:
        models = [one.id async for one in client.models.list()]
        shipped = tomllib.loads((ROOT / "gateway.toml").read_text(encoding="utf-8"))["models"]
        served = [
            name
            for name, one in shipped.items()
            if name.startswith("demo/") and one.get("kind", DEFAULT_KIND) in find_kinds()
        ]
        assert models == served, "providers without their key are off, and so their models"
        whole = await client.chat.completions.create(
            model="demo/echo", messages=[{"role": "user", "content": "Hello there"}]
        )
        assert "Hello there" in (whole.choices[0].message.content or "")
        assert whole.usage is not None
        assert whole.usage.completion_tokens > 0
        stream = await client.chat.completions.create(
            model="demo/echo", messages=[{"role": "user", "content": "Hello there"}], stream=True
        )
        pieces = [one.choices[0].delta.content or "" async for one in stream]
    assert "".join(pieces) == whole.choices[0].message.content
    books = Books(newcomer.database)
    assert 0 < books.balance_nano("default") < 5 * 10**9
    assert books.count_settled("default") == 2
    newcomer.canaries.append(key.encode())
    assert [one for one in newcomer.find_canaries() if not one.startswith(path.name)] == []
    newcomer.canaries.clear()


def test_the_first_key_is_an_ordinary_holder_s(newcomer: GatewayProcess) -> None:
    """It lets whoever finds it spend one account's credit, and nothing more."""
    _, key = find_first_key(newcomer)
    with open_books(newcomer.database) as books:
        made = {one.name: one.operator for one in books.accounts.read_all()}
        (only,) = books.keys.read_all()
    assert made == {"operator": True, "default": False}
    assert (only.account, only.display) == ("default", ids.display(key[-4:]))
