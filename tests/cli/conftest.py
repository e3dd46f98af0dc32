"""A command line with a folder of its own, and an account."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Cli, make_cli


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return make_cli(tmp_path, capsys)


@pytest.fixture
def alice(cli: Cli) -> str:
    cli.done("account", "add", "alice", "--credit", "20")
    return "alice"
