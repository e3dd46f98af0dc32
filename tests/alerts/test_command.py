"""One run of the operator's command."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from gateway.alerts.command import run
from gateway.alerts.webhook import Undelivered
from tests.support.loops import LOOPS, run_on
from tests.support.rows import each_row
from tests.support.waiting import until

BODY = b'{"id":"alert_1"}'
KEEP = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
FORK = """
import os, sys, time
if not os.fork():
    open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(60)
"""


async def test_it_gets_the_alert_and_no_shell(tmp_path: Path) -> None:
    path = tmp_path / "$(echo a); b"
    await run([sys.executable, "-c", KEEP, str(path)], BODY)
    assert json.loads(path.read_bytes()) == {"id": "alert_1"}


@each_row(
    ("words", "reason"),
    [
        ([sys.executable, "-c", "raise SystemExit(3)"], "the command exited with 3"),
        (["/nowhere/at-all"], "the command did not start: No such file or directory"),
    ],
)
async def test_a_failure_says_why(words: list[str], reason: str) -> None:
    with pytest.raises(Undelivered) as caught:
        await run(words, BODY)
    assert str(caught.value) == reason


@each_row("loop", LOOPS)
def test_one_that_ends_without_reading_says_how_it_ended(loop: str) -> None:
    async def run_many() -> set[str]:
        found = set()
        for _ in range(40):
            with pytest.raises(Undelivered) as caught:
                await run(["false"], BODY)
            found.add(str(caught.value))
        return found

    assert run_on(loop, run_many()) == {"the command exited with 1"}


async def test_one_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    with pytest.raises(Undelivered, match="longer than"):
        await run([sys.executable, "-c", FORK, str(path)], BODY, limit_seconds=1.5)
    child = int(path.read_text())
    await until(lambda: not is_running(child), "the child's end")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
