"""`check` and the verbs for prices: the summary of the configuration, and what is wrong with it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from gateway.ledger.records import LedgerError
from gateway.ledger.sqlite.files import take_lock
from tests import ROOT
from tests.support.cli import Cli, make_cli
from tests.support.process import free_port
from tests.support.rows import each_row
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


# ---- check --live --------------------------------------------------------------------------------

LIVE = """
[providers.demo]
dialect = "demo"
[providers.good]
dialect = "chat"
base_url = "http://127.0.0.1:{good}/v1"
api_key = "sk-canary-0123456789-tail"
[providers.bad]
dialect = "chat"
base_url = "http://127.0.0.1:{bad}/v1"
[providers.unset]
dialect = "chat"
base_url = "http://127.0.0.1:{bad}/v1"
api_key = "env:NO_SUCH_KEY"
[models.small]
routes = ["good/small", "bad/small"]
price = "free"
[models.odd]
routes = ["good/odd"]
price = "free"
"""


class Lister(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert self.path == "/v1/models"
        body = b'{"data": [{"id": "small"}]}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serve_list() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Lister) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_providers_are_asked_only_when_told(cli: Cli) -> None:
    with serve_list() as port:
        cli.config.write_text(LIVE.format(good=port, bad=free_port()), encoding="utf-8")
        assert "live" not in cli.done("check", "--json").json
        answer = cli.run("check", "--live")
        live = cli.run("check", "--live", "--json").json["live"]
    assert answer.code == 1
    assert "reachable, 1 model; not among them: odd" in answer.out
    assert "cannot be reached: Connection refused" in answer.out
    assert "Not usable as they are set: bad." in answer.err
    assert "canary" not in answer.out + answer.err
    assert [(one["provider"], one["verdict"], one["usable"]) for one in live] == [
        ("good", "unknown_models", True),
        ("bad", "failed", False),
    ]
    assert live[0]["unknown"] == ["odd"]
