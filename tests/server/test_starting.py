"""A start without room on the disk, or with an unreadable database: one sentence, exit code 69."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.admin import accounts
from gateway.admin.signin import SigninLink
from gateway.ledger.opening import open_books
from gateway.process import ExitCode
from gateway.server.first_start import (
    CannotShow,
    FirstAccounts,
    find_key_file,
    make_first_accounts,
    show_first_accounts,
)
from tests import ROOT
from tests.support.process import free_port
from tests.support.settings import load
from tests.support.stand_in import URL, stand_in


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
    return subprocess.run(
        ["sh", "-c", f'{prefix}exec "$@"', "", *command],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


@pytest.mark.parametrize(
    "blocks", [8, *(pytest.param(blocks, marks=pytest.mark.slow) for blocks in (0, 1, 64))]
)
def test_a_disk_without_room_is_no_traceback(tmp_path: Path, blocks: int) -> None:
    """Blocks of 512 or 1,024 bytes that a file may have: each limit ends another step of a start."""
    done = start(tmp_path, f"ulimit -f {blocks}; ")
    assert done.returncode == ExitCode.UNAVAILABLE, done.stderr
    (line,) = done.stderr.splitlines()
    assert "ERROR gateway.serve" in line
    assert "; " in line, "it says what to do"


def test_what_a_first_start_makes_is_noted_under_its_own_name(tmp_path: Path) -> None:
    config = load(tmp_path, "[billing]\ndemo_credit = 5\n")
    assert make_first_accounts(config)
    with open_books(config.storage.path) as books:
        events = books.events.read_page(None, None, 9)
    assert {event.actor for event in events} == {"first start"}
    assert len(events) == 4


def test_two_first_starts_on_one_database_make_accounts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later one goes on as a normal start, even if it found no account a moment before."""
    stand_in(monkeypatch, tmp_path / "shared.db")
    config = load(tmp_path, f'[storage]\nurl = "{URL}"\n[billing]\ndemo_credit = 5\n')
    add_account, made = accounts.add_account, []

    def add_behind_the_other(*arguments: Any, **named: Any) -> object:
        monkeypatch.setattr(accounts, "add_account", add_account)
        made.append(make_first_accounts(config))
        return add_account(*arguments, **named)

    monkeypatch.setattr(accounts, "add_account", add_behind_the_other)
    assert make_first_accounts(config) is None
    assert made != [None]
    assert make_first_accounts(config) is None
    with open_books(tmp_path / "shared.db") as books:
        assert [one.name for one in books.accounts.read_all()] == ["default", "operator"]
        assert len(books.keys.read_all()) == 1
    assert not (tmp_path / "gateway.db").exists()


def test_a_node_that_finds_an_account_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, tmp_path / "shared.db")
    with open_books(tmp_path / "shared.db", create=True) as books:
        accounts.add_account(books, "alice")
    config = load(tmp_path, f'[storage]\nurl = "{URL}"\n[billing]\ndemo_credit = 5\n')
    assert make_first_accounts(config) is None


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
    monkeypatch.setenv("STATE_DIRECTORY", folder and f"{tmp_path}/{folder}")
    assert find_key_file(load(tmp_path, f"[storage]\n{storage}\n")) == tmp_path / place


def test_a_first_key_that_cannot_be_shown_is_told(tmp_path: Path) -> None:
    """Its account is made by then, so the next start would not make another key."""
    config = load(tmp_path, '[storage]\npath = "missing/gateway.db"\n')
    first = FirstAccounts("sk-ru-secret", SigninLink("gwl_secret", 0))
    with pytest.raises(CannotShow, match="`key add default`") as caught:
        show_first_accounts(config, "127.0.0.1:8080", first)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("server", "url", "has_tunnel"),
    [
        ("", "http://127.0.0.1:8081", True),
        ('host = "0.0.0.0"', "http://127.0.0.1:8081", False),
        ('public_url = "https://llm.example.com"', "https://llm.example.com", False),
    ],
)
def test_the_first_link_can_be_opened_from_another_machine(
    tmp_path: Path, server: str, url: str, *, has_tunnel: bool
) -> None:
    config = load(tmp_path, f"[server]\n{server}\n")
    address = "0.0.0.0:8081" if "0.0.0.0" in server else "127.0.0.1:8081"
    show_first_accounts(config, address, FirstAccounts("sk-ru-x", SigninLink("gwl_x", 0)))
    told = find_key_file(config).read_text("utf-8")
    assert f"console       {url}/console/signin#token=gwl_x\n" in told
    assert ("-L 8081:127.0.0.1:8081 " in told) == has_tunnel


@pytest.mark.parametrize(
    "content",
    [
        b"SQLite format 3\0" + b"\xff" * 4080,
        pytest.param(b"\0" * 4096, marks=pytest.mark.slow),
    ],
)
def test_an_unreadable_database_is_no_traceback(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "gateway.db").write_bytes(content)
    done = start(tmp_path)
    assert done.returncode == ExitCode.UNAVAILABLE, done.stderr
    (line,) = done.stderr.splitlines()
    assert "restore a backup" in line
