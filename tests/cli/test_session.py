"""Sessions of an operator: what each command prints, on which stream, and its exit code.

The files in `sessions/`, also those of extras, have the commands and what they print: `! ` begins a line of
stderr, `[5]` is an exit code other than 0, and `> NAME` writes the lines below it into a file. `& ` begins a
command that prints what the next one does. `$ account passwd a < 'word'` has a text for stdin, `| grep` shows some
lines of stdout alone, `|& grep` of stderr, too, `$ sql` reads or changes the database, and `$ sh` runs a command
of the shell in the folder. Ids and secrets are numbered in the order in which they appear, and commands use them
by these numbers. JSON that is indented by two spaces fills its lines here. To write the files anew, after a look
at what that would change:

    WRITE_SESSION=1 python -m pytest tests/cli/test_session.py && git diff
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from gateway.extension import find_extras
from tests import ROOT
from tests.support.cli import Answer, Cli
from tests.support.layout import fill_json
from tests.support.scribe import Scribe

USED: Final = {
    "adopt": "responses",
    "adopted": "moves",
    "advised": "summary",
    "minutes": "summary",
    "old_keys": "reports",
    "people": "advice",
    "receipts": "receipts",
    "refusals": "receipts",
    "refunds": "observations",
    "signins": "reports",
    "units": "units",
}
"""Another extra that a session needs, if it does."""
SESSIONS: Final = {
    path.stem: path
    for folder in (Path(__file__).parent, *ROOT.glob("tests/extras/*"))
    for path in folder.glob("sessions/*.txt")
    if USED.get(path.stem, "") in {"", *find_extras()}
}
SEEDS: Final = {
    **dict.fromkeys(("calls", "receipts", "refunds"), "serve"),
    **dict.fromkeys(("refusals", "refused"), "refuse"),
}
"""Sessions that begin with requests, and what makes these: sessions of extras that count them."""


def run(cli: Cli, command: str) -> Answer:
    word, _, rest = command.partition(" ")
    if word == "sql":
        with closing(sqlite3.connect(cli.database)) as connection, connection:
            rows = connection.execute(rest).fetchall()
        return Answer(0, "".join(" | ".join(map(str, row)) + "\n" for row in rows), "")
    if word == "sh":
        done = subprocess.run(
            rest, shell=True, cwd=cli.folder, capture_output=True, text=True, check=False
        )
        return Answer(done.returncode, done.stdout, done.stderr)
    words = shlex.split(command)
    words, stdin = (words[:-2], words[-1]) if "<" in words else (words, "")
    environ = {"GATEWAY_CONFIG": str(cli.config), "SUDO_USER": "ann"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        return cli.run(*words, environ=environ)


def play(cli: Cli, scribe: Scribe, block: str) -> str:
    first, _, rest = block.partition("\n")
    if first.startswith("> "):
        path = cli.folder / first.removeprefix("> ")
        path.write_text(rest, encoding="utf-8")
        path.chmod(0o600)
        return block
    command, *greps = re.split(r" (\|&?) grep ", first[2:], maxsplit=1)
    both, pattern = greps[0] == "|&" if greps else False, greps[-1] if greps else ""
    answer = run(cli, scribe.read(command.replace("ROOT", str(ROOT))))
    # What is said comes first, so its secrets have the first numbers.
    said, out = (
        scribe.write(text.replace(sys.executable, "PYTHON").replace(str(ROOT), "ROOT"))
        for text in (answer.err, answer.out)
    )
    err = [line for line in said.splitlines() if not both or re.search(pattern, line)]
    shown = [
        line
        for line in (out if pattern else fill_json(out)).splitlines()
        if re.search(pattern, line)
    ]
    lines = [f"$ {first[2:]}", *(f"! {line}".rstrip() for line in err), *shown]
    return "\n".join([*lines, *([f"[{answer.code}]"] if answer.code else [])]) + "\n"


def fold(played: list[str]) -> list[str]:
    """Leave out what a command prints if the next one prints the same."""
    told = [one.partition("\n")[2] * one.startswith("$ ") for one in played]
    return [
        f"& {one[2:].partition(chr(10))[0]}\n" if mine and mine == following else one
        for one, mine, following in zip(played, told, [*told[1:], ""], strict=True)
    ]


@pytest.mark.parametrize("name", sorted(SESSIONS))
def test_each_command_prints_what_it_did(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if "units" in find_extras():  # the folder of a test belongs to whoever runs it
        monkeypatch.setattr("gateway.extras.units.verbs._find_owner", lambda _: "keeper")
    path = SESSIONS[name]
    if name in SEEDS:
        begun = import_module("tests.extras.observations.begun")
        asyncio.run(getattr(begun, SEEDS[name])(cli.folder))
    monkeypatch.chdir(cli.folder)
    scribe = Scribe(cli.folder)
    blocks = re.split(r"(?m)^(?=[$>&] )", path.read_text(encoding="utf-8"))[1:]
    played = fold([play(cli, scribe, block) for block in blocks])
    if "WRITE_SESSION" in os.environ:
        path.write_text("".join(played), encoding="utf-8")
    for got, block in zip(played, blocks, strict=True):
        assert got == block
