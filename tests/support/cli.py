"""Run commands in this process: words in; exit code, stdout and stderr out."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

import pytest

from gateway.base.progress import Progress
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

_streams: Final = threading.Lock()
"""Held while a thread's command has stdout and stderr, of which there is one pair."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run_here(words: Sequence[str], environ: Mapping[str, str]) -> Answer:
    """Run a command in any thread. To start a process for it takes a second more."""
    out, err = io.StringIO(), io.StringIO()
    with _streams, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words, environ)
    return Answer(code, out.getvalue(), err.getvalue())


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


def watch_progress(patch: pytest.MonkeyPatch) -> list[tuple[str, int, int, str]]:
    """Return what commands tell of their progress from now on, as if stderr were a terminal."""
    told: list[tuple[str, int, int, str]] = []

    def tell(step: str, done: int = 0, total: int = 0, unit: str = "", /) -> None:
        told.append((step, done, total, unit))

    @contextlib.contextmanager
    def show(_: TextIO) -> Iterator[Progress]:
        yield tell

    patch.setattr("gateway.cli.command.show_progress", show)
    return told
