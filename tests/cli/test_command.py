"""A command's output: data on stdout as text or JSON, messages on stderr."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from gateway.admin import views
from gateway.cli.arguments import Output
from gateway.cli.command import Command
from gateway.ledger.records import CodeView, NotFound
from tests.support.settings import load


def make_command(folder: Path, *, json: bool) -> Command:
    config = load(folder, '[billing]\ncurrency = "EUR"\n')
    return Command(config, Output(io.StringIO(), io.StringIO()), as_json=json)


def read(command: Command) -> tuple[str, str]:
    out, err = command.output.out, command.output.err
    assert isinstance(out, io.StringIO)
    assert isinstance(err, io.StringIO)
    return out.getvalue(), err.getvalue()


def test_data_is_text_or_json_and_words_go_elsewhere(tmp_path: Path) -> None:
    for wanted in (False, True):
        command = make_command(tmp_path, json=wanted)
        command.say("Made one.")
        command.show({"id": 1}, "one")
        out, err = read(command)
        assert err == "Made one.\n"
        assert (json.loads(out) if wanted else out) == ({"id": 1} if wanted else "one\n")


def test_what_has_no_text_is_shown_to_tools_alone(tmp_path: Path) -> None:
    command = make_command(tmp_path, json=False)
    command.show({"voided": 2})
    assert read(command) == ("", "")


def test_rows_are_a_table_in_the_currency(tmp_path: Path) -> None:
    rows: list[CodeView] = []
    command = make_command(tmp_path, json=False)
    command.show_list(rows, views.CODE)
    assert "AMOUNT EUR" in read(command)[0]
    assert command.format_money(1_500_000_000) == "1.50 EUR"
    command = make_command(tmp_path, json=True)
    command.show_list(rows, views.CODE)
    assert json.loads(read(command)[0]) == []


def test_a_reading_verb_makes_no_database(tmp_path: Path) -> None:
    command = make_command(tmp_path, json=False)
    with pytest.raises(NotFound):
        command.open_books()
    assert not command.config.storage.path.exists()
    command.open_books(create=True).close()
    assert command.config.storage.path.exists()
