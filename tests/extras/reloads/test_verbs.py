"""The command `reload`."""

from __future__ import annotations

import pytest

from gateway.base.process import ExitCode
from gateway.extras.reloads import asking
from tests.support.cli import Cli
from tests.support.stand_in import SHOWN, URL, stand_in


def test_a_reload_asks_the_process_that_serves(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file itself may be broken here. `reloaded/` has what comes of each answer."""
    cli.done("account", "add", "alice")
    cli.config.write_text("[models.x")
    monkeypatch.setattr("gateway.extras.reloads.verbs.find_server", lambda _: 7)
    answer = asking.Answer(0, False, "a typo")
    monkeypatch.setattr(asking, "ask", lambda _, pid: answer if pid == 7 else None)
    told = {"ok": False, "at": "1970-01-01T00:00:00.000Z", "words": "a typo"}
    assert cli.run("reload", "--json").json == told
    monkeypatch.setattr(asking, "ask", lambda *_: None)
    ran = cli.run("reload", "--json")
    assert (ran.code, ran.out) == (ExitCode.UNAVAILABLE, "")
    assert "process 7) was asked, but did not answer within 10 s" in ran.err


def test_a_reload_may_need_another_user(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    cli.done("account", "add", "alice")
    monkeypatch.setattr("gateway.extras.reloads.verbs.find_server", lambda _: 7)
    monkeypatch.setattr(asking, "ask", refuse)
    ran = cli.run("reload")
    assert (ran.code, ran.err.count("Use sudo.")) == (ExitCode.UNAVAILABLE, 1)


def test_a_reload_asks_the_node_of_this_machine(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.config.write_text(f'[storage]\nurl = "{URL}"\n')
    stand_in(monkeypatch, cli.folder / "behind.db")
    cli.done("account", "add", "alice")
    ran = cli.run("reload")
    assert ran.code == ExitCode.UNAVAILABLE
    assert ran.err.startswith(f"No gateway serves from {SHOWN} on this machine. If [storage] has")
    stand_in(monkeypatch, cli.folder / "behind.db", pid=7)
    monkeypatch.setattr(asking, "ask", lambda _, pid: asking.Answer(0, pid == 7, "nothing changed"))
    assert cli.done("reload").err == "nothing changed\n"
