"""Shells complete what is typed: each line, and what its shell offers behind it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from gateway.cli.verbs import VERBS, find_words, load_verbs
from gateway.extras.reference.verbs import SHELLS
from tests import ROOT
from tests.support.rows import told_together

load_verbs(find_words())

ASK: Final[Mapping[str, str]] = {
    "bash": (
        'try() { COMP_WORDS=(gateway "$@"); COMP_CWORD=$#; COMPREPLY=();'
        ' _gateway; printf "%s\\n" "${COMPREPLY[@]}"; }'
    ),
    # It completes on a terminal alone: what it would add is written, and filtered as it does.
    "zsh": (
        '_files() { print -l -- *(N) }; compadd() { shift; print -l -- "$@" }\n'
        'try() { words=(gateway "$@"); CURRENT=$#words; for one in $(_gateway); do'
        " [[ $one == ${words[CURRENT]}* ]] && print -r -- $one; done }"
    ),
    "fish": 'function try; complete -C "gateway $argv" | string split -f1 \\t; end',
}
ROWS: Final[Mapping[str, str]] = {
    "ser": "serve",
    "account cre": "credit",
    "--config x account cre": "credit",
    "account add --cre": "--credit",
    "account add bob --credit ": "",
    "account add --credit 5 --op": "--operator",
    "account list --sort ": "balance lasts name",
    "account edit account --role o": "operator",
    "completion b": "bash",
    "backup gate": "gateway.toml",
    "--config gate": "gateway.toml",
    "account add gate": "",
    "--vers": "--version",
    "audit --js": "--json",
}


@pytest.mark.parametrize("shell", ASK)
def test_a_shell_completes_what_is_typed(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    (tmp_path / "gateway.toml").touch()
    compdef = "compdef() { : }\n" if shell == "zsh" else ""
    # fish asks itself where it is for every word that it knows: 0.1 s for each line.
    lines = [*ROWS, *(f"{path} --" for path in VERBS if shell != "fish")]
    asked = "".join(f"echo {shlex.quote(f'== {line}')}\ntry {split(line)}\n" for line in lines)
    done = subprocess.run(
        [shell, *(["--no-config"] if shell == "fish" else [])],
        input=f"{compdef}{SHELLS[shell]()}\n{ASK[shell]}\n{asked}",
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    told = {line: found.split() for line, found in find_parts(done.stdout)}
    assert told.keys() == {*lines}
    with told_together() as row:
        for line, found in told.items():
            with row(line):
                assert " ".join(sorted(found)) == ROWS[line] if line in ROWS else "--help" in found


def split(line: str) -> str:
    return shlex.join([*line.split(), *([""] if line.endswith(" ") else [])])


def find_parts(told: str) -> list[tuple[str, str]]:
    return [
        (line, found) for line, _, found in (one.partition("\n") for one in told.split("== ")[1:])
    ]


def test_the_completion_of_a_starting_shell_needs_no_web_server() -> None:
    """It imports the modules of all verbs, and aiohttp would take as long as all of them."""
    look = "import sys; from gateway.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", look, "completion", "bash"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert "aiohttp" not in done.stdout.splitlines()[-1].split()
