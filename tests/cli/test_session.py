"""An operator's session: what each command prints, on which stream, and its exit code.

`session.txt` has the commands and what they print: `! ` begins a line of stderr, `[5]` is an exit code
other than 0. Ids and secrets are numbered in the order in which they appear, and commands use them
by these numbers. To write the file anew, after a look at what it would change:

    WRITE_SESSION=1 python -m pytest tests/cli/test_session.py && git diff tests/cli/session.txt
"""

from __future__ import annotations

import os
import re
import shlex
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.support.cli import Cli

SESSION: Final = Path(__file__).with_name("session.txt")
SECRETS: Final = re.compile(
    r"(?P<id>(?:key|batch|tok)_[0-9a-f]{16}\b|code_[0-9a-f]{23}\b)"
    r"|(?P<key>sk-ru-[A-Za-z0-9]{38,}|gw[tl]_[\w-]{43})"
    r"|(?P<code>\b[2-9A-HJ-NP-Z]{4}(?:-[2-9A-HJ-NP-Z]{4}){3}\b)"
    r"|(?P<shown>(?:…|\\u2026|····-|(?:\\u00b7){4}-)[\w-]{4})"
)
"""Ids, keys, tokens, links and codes, and the ends by which people tell them apart."""
VARYING: Final = (
    (re.compile(r"(?!2999)\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d\.\d{3}Z)?"), "WHEN"),
    (re.compile(r'(?<=, )\d+(?= bytes)|(?<="bytes": )\d+'), "BYTES"),
)


class Scribe:
    """Replaces what differs from run to run by names, and names by what they stand for."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._names: dict[str, str] = {}
        self._numbers = {"key": count(1), "batch": count(1), "tok": count(1), "code": count(1)}
        self._secrets = count(1)

    def write(self, text: str) -> str:
        text = SECRETS.sub(self._name, text.replace(self._folder, "DIR"))
        for pattern, name in VARYING:
            text = pattern.sub(name, text)
        return text

    def read(self, command: str) -> list[str]:
        meant = {name: real for real, name in self._names.items()}
        return [meant.get(word, word) for word in shlex.split(command)]

    def _name(self, found: re.Match[str]) -> str:
        real = found[0]
        if found["shown"]:
            return "…"
        if real not in self._names:
            prefix = real.partition("_")[0]
            number = next(self._numbers[prefix]) if found["id"] else next(self._secrets)
            self._names[real] = f"{prefix}_{number}" if found["id"] else f"SECRET-{number}"
        return self._names[real]


def play(cli: Cli, scribe: Scribe, command: str) -> str:
    environ = {"GATEWAY_CONFIG": str(cli.config), "SUDO_USER": "ann"}
    answer = cli.run(*scribe.read(command), environ=environ)
    said = [f"! {line}".rstrip() for line in scribe.write(answer.err).splitlines()]
    lines = [f"$ {command}", *said, *scribe.write(answer.out).splitlines()]
    return "\n".join([*lines, *([f"[{answer.code}]"] if answer.code else [])]) + "\n"


def test_each_command_prints_what_it_did(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cli.folder)
    scribe = Scribe(cli.folder)
    blocks = re.split(r"(?m)^(?=\$ )", SESSION.read_text(encoding="utf-8"))[1:]
    played = [play(cli, scribe, block.partition("\n")[0].removeprefix("$ ")) for block in blocks]
    if "WRITE_SESSION" in os.environ:
        SESSION.write_text("".join(played), encoding="utf-8")
    for got, block in zip(played, blocks, strict=True):
        assert got == block
