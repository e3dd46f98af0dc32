"""One run of the operator's command: the alert as JSON on its standard input, no shell."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from gateway.alerts.webhook import Undelivered

LIMIT_SECONDS: Final = 10.0
"""Time for a run; then its whole process group is killed."""


async def run(command: Sequence[str], body: bytes, *, limit_seconds: float = LIMIT_SECONDS) -> None:
    """Run the command, which has to exit with 0. Raises Undelivered."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it cannot be run"
        raise Undelivered(f"the command did not start: {reason}") from error
    try:
        async with asyncio.timeout(limit_seconds):
            # uvloop's name for a broken pipe: the command ended without reading.
            with suppress(RuntimeError):
                await process.communicate(body + b"\n")
            await process.wait()
    except BaseException as error:
        # Its children may outlive it, and the group is theirs, too.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        if isinstance(error, TimeoutError):
            raise Undelivered(f"the command took longer than {limit_seconds:g} s") from error
        raise
    if process.returncode:
        raise Undelivered(f"the command exited with {process.returncode}")
