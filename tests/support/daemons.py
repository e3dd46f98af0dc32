"""Servers that refuse to run as root: their user, their folders, and their processes to the last child."""

from __future__ import annotations

import functools
import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

USERS: Final = ("postgres", "nobody")
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.01
MEMORY: Final = Path("/dev/shm")
ROOM: Final = 2**31
"""The free bytes without which nothing is put into memory: a container may have next to none."""


@functools.cache
def find_user() -> pwd.struct_passwd | None:
    """Find who runs the servers: the first of USERS if these tests run as root, else who runs them."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next(known[name] for name in USERS if name in known)


def describe(folder: Path) -> dict[str, Any]:
    """Give subprocess's arguments: the servers' user, a place it may be in, and no PG* variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    arguments: dict[str, Any] = {"cwd": folder, "env": kept | {"LC_ALL": "C"}}
    user = find_user()
    if user is not None:
        arguments |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": ()}
    return arguments


def make_folder(name: str, *, durable: bool = True) -> Path:
    """Make a folder that the servers' user owns. Its path is short, as those of UNIX sockets are.

    Without `durable` it is in memory, where there is room.
    """
    memory = not durable and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM
    folder = Path(tempfile.mkdtemp(prefix=f"gateway-{name}-", dir=MEMORY if memory else None))
    user = find_user()
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    return folder


def run(command: Sequence[str | Path], folder: Path, *, text: str = "") -> str:
    """Run a command to its end with `text` as its input, and return what it said."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, **describe(folder)
    )
    assert done.returncode == 0, f"{command[0]}: {done.stderr}"
    said: str = done.stdout
    return said


@dataclass(slots=True)
class Daemon:
    """A server and its folder, in which `log` is its standard error."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    _alive: int = -1
    """A pipe whose other end the server and all its children hold: it ends when they are gone."""

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def start(self, command: Sequence[str | Path], is_ready: Callable[[], bool]) -> None:
        """Start the server and return once it is ready; end it if it never is."""
        assert self.process is None, "it runs already"
        self._alive, held = os.pipe()
        try:
            with (self.folder / "log").open("ab") as log:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(held,),
                    **describe(self.folder),
                )
        finally:
            os.close(held)
        try:
            self._wait_until(is_ready, self.process)
        except BaseException:
            self.end(signal.SIGQUIT)
            raise

    def _wait_until(self, is_ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not is_ready():
            assert process.poll() is None, f"it did not start:\n{self.log[-4000:]}"
            assert time.monotonic() < deadline, f"it is not ready:\n{self.log[-4000:]}"
            time.sleep(POLL_SECONDS)

    def end(self, number: signal.Signals) -> None:
        """Send a signal that ends the server; return once its last child has gone."""
        assert self.process is not None, "it does not run"
        self.process.send_signal(number)
        ended, _, _ = select.select([self._alive], [], [], STOP_SECONDS)
        if not ended:
            self.process.kill()
        self.process.wait()
        self.process = None
        os.close(self._alive)
        assert ended, f"it did not stop on {number.name}:\n{self.log[-4000:]}"

    def remove(self) -> None:
        """End the server, if it still runs, and remove its folder."""
        try:
            if self.process is not None:
                self.end(signal.SIGQUIT)
        finally:
            shutil.rmtree(self.folder)
