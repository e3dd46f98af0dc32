"""Runs operators' commands without a shell or the gateway's secrets, with limits on time and output."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.base import deadlines

_PASSED: Final = re.compile(
    "PATH|HOME|LANG|LANGUAGE|LC_[A-Z]+|TZ|SSL_CERT_(?:FILE|DIR)"
    "|(?:http|https|ftp|all|no)_proxy|(?:HTTP|HTTPS|FTP|ALL|NO)_PROXY"
)
"""Matches variables that each command gets: programs need them, and none has one of the gateway's keys."""


class CommandFailed(Exception):
    """A command failed. The text says why, without quoting the command's output."""


async def run_command(
    command: Sequence[str],
    given: bytes = b"",
    *,
    limit_seconds: float,
    max_output: int = 0,
    folder: Path | None = None,
    variables: Collection[str] = (),
) -> bytes:
    """Run a command in a folder and return its output. The command has to exit with 0.

    The environment has the gateway's secrets. A command gets only variables in `_PASSED` and `variables`.

    With `max_output` 0 the output is not read. stderr is never read, as it may contain secrets. Raises
    CommandFailed.
    """
    # A full pipe that nobody reads would stop the command.
    pipes = PIPE if given else DEVNULL, PIPE if max_output else DEVNULL
    environ = pick_variables(os.environ, variables)
    process = await _start(command, *pipes, folder, environ)
    try:
        async with deadlines.limit_seconds(limit_seconds):
            output = await _exchange(process, given, max_output)
            await process.wait()
    except BaseException as error:
        # Children may outlive the command; killing the group ends them, too.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # Without this wait, the killed process would stay as a zombie if the task is cancelled again.
        while process.returncode is None:
            with suppress(asyncio.CancelledError):
                await process.wait()
        if isinstance(error, TimeoutError):
            raise CommandFailed(f"the command took longer than {limit_seconds:g} s") from error
        raise
    if process.returncode:
        raise CommandFailed(f"the command exited with {process.returncode}")
    return output


def pick_variables(environ: Mapping[str, str], variables: Collection[str]) -> dict[str, str]:
    """Return the environment of a command: the variables that each gets, and those that it asks for."""
    return {
        name: value
        for name, value in environ.items()
        if name in variables or _PASSED.fullmatch(name)
    }


async def _start(
    command: Sequence[str], stdin: int, stdout: int, folder: Path | None, environ: Mapping[str, str]
) -> Process:
    """Start a command in a process group of its own, so that its children can be killed with it."""
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=stdin,
            stdout=stdout,
            stderr=DEVNULL,
            start_new_session=True,
            cwd=folder,
            env=environ,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it cannot be run"
        raise CommandFailed(f"the command did not start: {reason}") from error


async def _exchange(process: Process, given: bytes, max_output: int) -> bytes:
    """Send a command its input and read its output. Raises CommandFailed if there is too much output."""
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
