"""`unit`: the unit files of this installation."""

from __future__ import annotations

import dataclasses
import sys

import pytest

from gateway.cli import process as unit_verb
from gateway.cli.process import note
from gateway.process import ExitCode
from gateway.server.systemd import make_service
from tests.server.unit_files import PLACE, SERVER, STATE, read_unit
from tests.support.cli import Cli
from tests.support.rows import each_row
from tests.support.settings import SHIPPED
from tests.support.stand_in import PASSWORD, URL


@pytest.fixture(autouse=True)
def owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder does not belong to root, whoever runs the tests."""
    monkeypatch.setattr(unit_verb, "_find_owner", lambda _: "keeper")


def test_the_verb_prints_this_installation(cli: Cli) -> None:
    """The unit alone goes to stdout, the instructions to stderr."""
    answer = cli.done("unit")
    unit = read_unit(answer.out)
    assert unit["ExecStart"] == [f"{sys.executable} -m gateway serve --config {cli.config}"]
    assert unit["WorkingDirectory"] == [str(SHIPPED.parent)]
    assert unit["ReadWritePaths"] == [str(cli.folder)]
    assert answer.out.startswith("[Unit]\n")
    assert "sudo systemctl enable --now gateway.socket gateway.service" in answer.err
    assert "sudo systemctl reload gateway.service" in answer.err
    assert not cli.database.exists()


def test_a_relative_configuration_becomes_absolute(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(cli.folder)
    unit = read_unit(cli.run("unit", environ={}).out)
    assert unit["ExecStart"][0].endswith(f" --config {cli.config}")


@each_row(
    ("host", "port", "expected"),
    [
        ("127.0.0.1", 8080, ["127.0.0.1:8080"]),
        ("::1", 81, ["[::1]:81"]),
        ("0.0.0.0", 8080, ["0.0.0.0:8080"]),
    ],
)
def test_the_socket_is_where_the_configuration_says(
    cli: Cli, host: str, port: int, expected: list[str]
) -> None:
    cli.config.write_text(f'[server]\nhost = "{host}"\nport = {port}\n', encoding="utf-8")
    answer = cli.done("unit", "--socket")
    assert read_unit(answer.out)["ListenStream"] == expected
    assert answer.err == ""


def test_a_name_becomes_numbers(cli: Cli) -> None:
    cli.config.write_text('[server]\nhost = "localhost"\n', encoding="utf-8")
    assert "127.0.0.1:8080" in read_unit(cli.done("unit", "--socket").out)["ListenStream"]


@each_row("server", ["port = 0", 'host = "no-such-host.invalid"'])
def test_a_socket_needs_an_address(cli: Cli, server: str) -> None:
    cli.config.write_text(f"[server]\n{server}\n", encoding="utf-8")
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
    answer = cli.done("unit")
    unit = read_unit(answer.out)
    assert (unit["User"], unit["StateDirectory"]) == (["keeper"], ["gateway"])
    assert "ReadWritePaths" not in unit
    assert "Note" not in answer.err
    monkeypatch.setattr(unit_verb, "_find_owner", lambda _: "")
    own = cli.done("unit")
    assert read_unit(own.out)["DynamicUser"] == ["yes"]
    (told,) = (line for line in own.err.splitlines() if line.startswith("Note: "))
    assert f"into {cli.folder}/gateway.env, a file of root (mode 0600)" in told
    container = cli.done("unit", "--container")
    assert "STATE_DIRECTORY=/var/lib/gateway" in read_unit(container.out)["Environment"]
    assert "Note" not in container.err
    for said in (answer, own, container):
        assert PASSWORD not in said.out + said.err


def test_a_copy_of_the_clones_configuration_names_no_file_then(cli: Cli) -> None:
    (cli.folder / "pyproject.toml").touch()
    cli.config.write_text(f'[storage]\nurl = "{URL}"\n', encoding="utf-8")
    err = cli.done("unit").err
    assert " /etc/gateway/gateway.toml and print the units again with --config" in err
    assert "[storage] path" not in err


def test_the_configuration_of_the_clone_is_no_place_to_edit(cli: Cli) -> None:
    """An upgrade overwrites it, so `unit` asks for a copy elsewhere; with one it is quiet."""
    answer = cli.done("unit", "--config", str(SHIPPED))
    assert f"Note: {SHIPPED} comes with the program, and an upgrade would overwrite" in answer.err
    assert f"set [storage] path in it to {SHIPPED.with_name('gateway.db')}" in answer.err
    assert "print the units again with --config /etc/gateway/gateway.toml" in answer.err
    assert "Note:" not in cli.done("unit").err


def test_another_name_of_the_clones_configuration_is_found(cli: Cli) -> None:
    cli.config.unlink()
    cli.config.symlink_to(SHIPPED)
    assert f"Note: {cli.config} comes with the program" in cli.done("unit").err


def test_a_container_is_told_where_its_database_must_be(cli: Cli) -> None:
    answer = cli.done("unit", "--container")
    assert read_unit(answer.out)["Exec"] == ["serve --config /etc/gateway/gateway.toml"]
    assert f"{cli.config}:/etc/gateway/gateway.toml:ro" in answer.out
    assert 'set [storage] path = "/var/lib/gateway/gateway.db"' in answer.err
    cli.config.write_text('[storage]\npath = "/var/lib/gateway/gateway.db"\n', encoding="utf-8")
    assert "Note" not in cli.done("unit", "--container").err


def test_one_unit_is_printed_at_a_time(cli: Cli) -> None:
    assert cli.run("unit", "--container", "--socket").code == ExitCode.USAGE
