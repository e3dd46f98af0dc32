"""Run commands in this process: words in; exit code, stdout and stderr out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import main

CONFIG = """
[billing]
currency = "EUR"
[providers.demo]
dialect = "demo"
[providers.vendor]
dialect = "chat"
base_url = "https://api.example.com/v1"
api_key = "file:$CREDENTIALS_DIRECTORY/vendor"
[models."demo/echo"]
routes = ["demo/echo"]
price = { input = 0.15, output = 0.60 }
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Cli:
    """The command line in a folder with a gateway.toml, whose provider's key cannot be read."""

    folder: Path
    capture: pytest.CaptureFixture[str]

    @property
    def config(self) -> Path:
        return self.folder / "gateway.toml"

    @property
    def database(self) -> Path:
        return self.folder / "gateway.db"

    def run(self, *words: str, environ: Mapping[str, str] | None = None) -> Answer:
        variables = {"GATEWAY_CONFIG": str(self.config)} if environ is None else environ
        code = main(words, variables)
        captured = self.capture.readouterr()
        assert "Traceback" not in captured.err
        return Answer(code, captured.out, captured.err)

    def done(self, *words: str) -> Answer:
        """Run a command that must succeed."""
        answer = self.run(*words)
        assert answer.code == 0, answer.err
        return answer

    def add_key(self, account: str, *words: str) -> tuple[str, str]:
        """Make a key and return its id and the key itself."""
        made = self.done("key", "add", account, *words, "--json").json
        return made["id"], made["secret"]


def make_cli(folder: Path, capture: pytest.CaptureFixture[str]) -> Cli:
    (folder / "gateway.toml").write_text(CONFIG, encoding="utf-8")
    return Cli(folder, capture)
