"""`check` judges commands that print keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_check import CANARY, CONFIG
from tests.support.cli import make_cli
from tests.support.extras import need_extra
from tests.support.rows import each_row
from tests.support.settings import OPENAI, load


@need_extra("advice")
@each_row(
    ("command", "literals"),
    [
        ("echo T0AAAAA0000BBBB11", ("[providers.openai] api_key",)),
        ("gcloud auth print-access-token", ()),
    ],
)
def test_a_secret_in_a_command_is_named(
    tmp_path: Path, command: str, literals: tuple[str, ...]
) -> None:
    config = load(tmp_path, f'{OPENAI}api_key = "command:{command}"')
    assert config.literals == literals


@need_extra("summary")
def test_commands_of_keys_are_run_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli = make_cli(tmp_path, capsys)
    (cli.config.parent / "fetch").write_text(f"echo x >> runs; echo {CANARY}")
    good, bad = '"command:sh fetch"', "\"command:sh -c 'echo sk-canary-printed; exit 3'\""
    cli.config.write_text(CONFIG.replace(f'"{CANARY}"\nheaders', f"{good}\nheaders"))
    assert "…tail" in cli.done("check").out
    assert (cli.config.parent / "runs").read_text() == "x\n"
    cli.config.write_text(CONFIG.replace(f'"{CANARY}"\nheaders', f"{bad}\nheaders"))
    answer = cli.run("check")
    assert answer.code == 1
    assert "on; a key is missing: the command exited with 3" in answer.out
    assert "Not usable as they are set: second." in answer.err
    assert "canary" not in answer.out + answer.err
