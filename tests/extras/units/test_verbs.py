"""`unit`: the unit files of this installation."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.base.process import ExitCode
from gateway.extras.units import verbs as unit_verb
from gateway.extras.units.texts import make_service
from gateway.extras.units.verbs import note
from tests.extras.units.unit_files import PLACE, SERVER, STATE, read_unit
from tests.support.cli import Cli
from tests.support.settings import SHIPPED
from tests.support.stand_in import PASSWORD, URL, stand_in


@pytest.fixture(autouse=True)
def owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder does not belong to root, whoever runs the tests."""
    monkeypatch.setattr(unit_verb, "_find_owner", lambda _: "keeper")


def test_a_relative_configuration_becomes_absolute(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(cli.folder)
    unit = read_unit(cli.run("unit", environ={}).out)
    assert unit["ExecStart"][0].endswith(f" --config {cli.config}")


def test_a_name_becomes_numbers(cli: Cli) -> None:
    cli.config.write_text('[server]\nhost = "localhost"\n', encoding="utf-8")
    assert "127.0.0.1:8080" in read_unit(cli.done("unit", "--socket").out)["ListenStream"]


def test_a_socket_needs_an_address(cli: Cli) -> None:
    cli.config.write_text('[server]\nhost = "no-such-host.invalid"\n', encoding="utf-8")
    answer = cli.run("unit", "--socket")
    assert (answer.code, answer.out) == (1, "")


def test_no_service_runs_as_root(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_verb, "_find_owner", lambda _: "")
    answer = cli.run("unit")
    assert (answer.code, answer.out) == (ExitCode.FAILED, "")
    assert "would run as root" in answer.err
    assert f"chown -R gateway: {cli.folder}" in answer.err


def test_a_user_of_systemds_is_no_surprise() -> None:
    place = dataclasses.replace(PLACE, owner="", database=STATE)
    (line,) = note(make_service(place, SERVER), place)
    assert "sudo" in line
    assert list(note(make_service(PLACE, SERVER), PLACE)) == []


def test_a_service_with_a_database_elsewhere(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.config.write_text(f'[storage]\nurl = "{URL}"\n', encoding="utf-8")
    stand_in(monkeypatch, cli.folder / "behind.db")
    monkeypatch.setattr(unit_verb, "_find_owner", lambda _: "")
    own = cli.done("unit")
    assert read_unit(own.out)["DynamicUser"] == ["yes"]
    (told,) = (line for line in own.err.splitlines() if line.startswith("Note: "))
    assert f"into {cli.folder}/gateway.env, a file of root (mode 0600)" in told
    assert PASSWORD not in own.out + own.err + cli.done("unit", "--container").out


def test_another_name_of_the_clones_configuration_is_found(cli: Cli) -> None:
    cli.config.unlink()
    cli.config.symlink_to(SHIPPED)
    assert f"Note: {cli.config} comes with the program" in cli.done("unit").err
