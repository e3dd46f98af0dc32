"""Operators' commands, run without a shell, within a limit of time and of output."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


class CommandFailed(Exception):
    """A command failed. The text says why, without quoting the command's output."""


async def run_command(
    command: Sequence[str],
    given: bytes = b"",
    *,
    limit_seconds: float,
    max_output: int = 0,
    folder: Path | None = None,
) -> bytes:
    """Run a command in a folder and return its output. The command has to exit with 0.

    With `max_output` 0 the output is not read. stderr is never read, as it may contain secrets. Raises
    CommandFailed.
    """
    # A full pipe that nobody reads would stop the command.
    pipes = PIPE if given else DEVNULL, PIPE if max_output else DEVNULL
    process = await _start(command, *pipes, folder)
    try:
        async with asyncio.timeout(limit_seconds):
            output = await _exchange(process, given, max_output)
            await process.wait()
    except BaseException as error:
        # Children may outlive the command; killing the group ends them, too.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # Until then the killed process stays as a zombie.
        await process.wait()
        if isinstance(error, TimeoutError):
            raise CommandFailed(f"the command took longer than {limit_seconds:g} s") from error
        raise
    if process.returncode:
        raise CommandFailed(f"the command exited with {process.returncode}")
    return output


async def _start(command: Sequence[str], stdin: int, stdout: int, folder: Path | None) -> Process:
    """Start a command in a process group of its own, so that its children can be killed with it."""
    try:
        return await asyncio.create_subprocess_exec(
            *command, stdin=stdin, stdout=stdout, stderr=DEVNULL, start_new_session=True, cwd=folder
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it cannot be run"
        raise CommandFailed(f"the command did not start: {reason}") from error


async def _exchange(process: Process, given: bytes, max_output: int) -> bytes:
    """Give a command its input and read its output. Raises CommandFailed for too much of it."""
    if process.stdout is None:
        # uvloop's error for a broken pipe: the command ended without reading.
        with suppress(RuntimeError):
            await process.communicate(given)
        return b""
    output = b""
    while piece := await process.stdout.read(max_output):
        output += piece
        if len(output) > max_output:
            raise CommandFailed(f"the command wrote more than {max_output >> 10} KiB")
    return output
