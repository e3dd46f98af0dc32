"""Commands that fail, hang or write too much."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.extras.commands.running import CommandFailed, run_command
from tests.support.waiting import until


async def run(*command: str, limit_seconds: float = 30.0) -> bytes:
    return await run_command(command, limit_seconds=limit_seconds, max_output=1024)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("cat", "/nowhere/at-all"), "the command exited with 1"),
        (("/nowhere/at-all",), "the command did not start: No such file or directory"),
        (("head", "-c", "9999", "/dev/zero"), "the command wrote more than 1 KiB"),
    ],
)
async def test_a_command_that_fails_says_why_in_our_words(
    command: tuple[str, ...], words: str
) -> None:
    with pytest.raises(CommandFailed) as failure:
        await run(*command)
    assert str(failure.value) == words


async def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with pytest.raises(CommandFailed, match="took longer than"):
        await run("sh", "-c", f"sleep 600 & echo $$ $! > {pids}; wait", limit_seconds=0.5)
    own, child = map(int, pids.read_text().split())
    assert find_state(own) == ""
    await until(lambda: find_state(child) in ("", "Z"), "its child's end")


async def test_a_command_ends_with_what_runs_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    # It says its number once it has read its input: by then `run_command` waits for its end.
    command = ("sh", "-c", f"cat > /dev/null; echo $$ > {pid}; exec sleep 600")
    running = run_command(command, b"input", limit_seconds=30.0)
    task = asyncio.get_running_loop().create_task(running)
    await until(lambda: pid.exists() and pid.read_text().strip(), "the command to run")
    for _ in range(2):  # a loop that ends cancels a task that was cancelled
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([task])
    assert find_state(int(pid.read_text())) == ""


def find_state(pid: int) -> str:
    """Return the state of a process, which is Z for a zombie, or "" if it is gone."""
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().split()[2]
    return ""
