"""`check` and the verbs for prices: the summary of the configuration, and what is wrong with it."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from gateway.cli.summary import describe_config, page_config
from gateway.ledger.records import LedgerError
from gateway.ledger.sqlite.files import take_lock
from tests import ROOT
from tests.support.cli import Cli, make_cli
from tests.support.rows import each_row
from tests.support.settings import MODEL, openai
from tests.support.stand_in import PASSWORD, SHOWN, URL, Opening, stand_in

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
    assert "off: the environment variable ANTHROPIC_API_KEY is not set" in answer.out
    assert [one for one in answer.err.splitlines() if "needs the extra" not in one] == []


def test_many_models_are_summarized_in_time(tmp_path: Path) -> None:
    """A reseller has hundreds; `check` looked at all of them for each one."""

    def take_seconds(count: int) -> float:
        models = (MODEL.replace('"m"', f'"m{number}"', 1) for number in range(count))
        config = openai(tmp_path, "".join(models))
        begun = time.process_time()
        summary = describe_config(config)
        assert len(page_config(config, summary).splitlines()) > count
        return time.process_time() - begun

    few, many = take_seconds(100), take_seconds(800)
    assert many < 24 * few


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


def test_a_database_elsewhere_is_shown_without_its_password(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is opened as `serve` would."""
    opened = stand_in(monkeypatch, cli.folder / "behind.db")
    cli.config.write_text(f'{CONFIG}[storage]\nurl = "{URL}"\n')
    answer = cli.done("check")
    assert f"\ndatabase  {SHOWN}\n" in answer.out
    assert opened == [URL]
    assert cli.done("check", "--json").json["database"] == SHOWN
    assert PASSWORD not in cli.run("check", "--json").out + answer.out + answer.err


def test_a_database_elsewhere_that_would_not_open_is_told(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bool:
        raise LedgerError(f"{SHOWN}: it does not answer")

    stand_in(monkeypatch, cli.folder / "behind.db")
    monkeypatch.setattr(Opening, "check_ledger", refuse)
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


@pytest.mark.parametrize(("mode", "is_told"), [(0o604, True), (0o644, True), (0o600, False)])
def test_secrets_that_others_can_read_are_told(cli: Cli, mode: int, *, is_told: bool) -> None:
    cli.config.chmod(mode)
    told = cli.done("check").err
    assert (f"Warning: {cli.config} can be read by everybody on this machine" in told) is is_told
    assert (
        "written out: [providers.second] api_key, [providers.second] headers. " in told
    ) is is_told
    assert CANARY not in told
