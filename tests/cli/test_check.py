"""`check`: what is wrong with the configuration."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.cli.process import check
from gateway.cli.verbs import JSON, VERBS, load_verbs
from gateway.ledger.records import LedgerError
from gateway.ledger.sqlite.files import take_lock
from tests import ROOT
from tests.support.cli import Cli, make_cli
from tests.support.extras import need_extra
from tests.support.rows import each_row
from tests.support.stand_in import SHOWN, URL, StandIn, stand_in

CANARY = "sk-canary-0123456789-tail"
CONFIG = f"""
[server]
port = 0
[providers.second]
dialect = "messages"
base_url = "https://api.example.org/v1"
api_key = "{CANARY}"
headers = {{ X-Secret = "{CANARY}" }}
[models.m]
routes = ["second/m"]
max_output_tokens = 1
price = "free"
"""


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    cli = make_cli(tmp_path, capsys)
    cli.config.write_text(CONFIG, encoding="utf-8")
    cli.config.chmod(0o600)
    return cli


def test_the_shipped_configuration_is_in_order(cli: Cli) -> None:
    shipped = (ROOT / "gateway.toml").read_text(encoding="utf-8")
    cli.config.write_text(shipped.replace("port = 8080", "port = 0"), encoding="utf-8")
    answer = cli.done("check")
    assert [one for one in answer.err.splitlines() if "needs the extra" not in one] == []


@each_row(
    ("server", "is_warned"),
    [
        ('host = "0.0.0.0"', True),
        ('host = "::"\npublic_url = "http://llm.example.com"', True),
        ('host = "::"\npublic_url = "https://llm.example.com"', False),
        ('host = "127.0.0.1"', False),
    ],
)
def test_an_exposed_gateway_is_warned_of(cli: Cli, server: str, is_warned: bool) -> None:
    cli.config.write_text(f"[server]\nport = 0\n{server}\n", encoding="utf-8")
    assert ("TLS proxy" in cli.run("check").err) == is_warned  # there may be no IPv6 here


def test_without_a_summary_the_models_that_are_on_are_counted(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_verbs(["check"])
    monkeypatch.setitem(VERBS, "check", replace(VERBS["check"], run=check, arguments=(JSON,)))
    assert cli.done("check").out == f"{cli.config} is valid. Models that are on: 1.\n"
    assert cli.done("check", "--json").json == {"config": str(cli.config)}


def test_a_database_elsewhere_that_would_not_open_is_told(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bool:
        raise LedgerError(f"{SHOWN}: it does not answer")

    stand_in(monkeypatch, cli.folder / "behind.db")
    monkeypatch.setattr(StandIn, "check_ledger", refuse)
    cli.config.write_text(f'{CONFIG}[storage]\nurl = "{URL}"\n')
    answer = cli.run("check")
    assert answer.code == 69
    assert answer.err.endswith(f"`serve` cannot start: {SHOWN}: it does not answer\n")


def test_looking_changes_nothing(cli: Cli) -> None:
    cli.done("check")
    assert [path.name for path in cli.folder.iterdir()] == ["gateway.toml"]
    cli.done("account", "add", "alice")
    before = cli.database.read_bytes()
    cli.done("check")
    assert cli.database.read_bytes() == before


def test_an_address_in_use_is_told_unless_by_a_gateway_of_this_database(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cli.config.write_text(f"[server]\nport = {port}\n", encoding="utf-8")
        answer = cli.run("check")
        assert answer.code == 69
        assert f"`serve` cannot start: cannot listen on 127.0.0.1:{port}: another" in answer.err
        cli.done("account", "add", "alice")
        lock = take_lock(cli.database)
        assert "The gateway that serves now has the one of its start" in cli.done("check").err
        os.close(lock)


@need_extra("advice")
@pytest.mark.parametrize(("mode", "is_told"), [(0o604, True), (0o644, True), (0o600, False)])
def test_secrets_that_others_can_read_are_told(cli: Cli, mode: int, *, is_told: bool) -> None:
    cli.config.chmod(mode)
    told = cli.done("check").err
    assert (f"Warning: {cli.config} can be read by everybody on this machine" in told) is is_told
    assert (
        "written out: [providers.second] api_key, [providers.second] headers. " in told
    ) is is_told
    assert CANARY not in told
