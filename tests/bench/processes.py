"""The measured processes: started, observed from outside, stopped by their own id."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests import ROOT

START_SECONDS: Final = 20.0
STOP_SECONDS: Final = 15.0
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Target:
    """A process that listens on a port of the loopback."""

    name: str
    pid: int
    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def read_cpu_seconds(self) -> float:
        """Return user and system time so far, of all threads."""
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8")
        fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND

    def read_memory_mib(self, field: str) -> float:
        """Return `VmRSS` or `VmHWM`."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return int(value.split()[0]) / 1024
        raise LookupError(field)


@contextlib.contextmanager
def run_script(name: str, *words: str) -> Iterator[Target]:
    """Start a module of this package, which prints its port once it listens."""
    command = [sys.executable, "-m", f"tests.bench.{name}", *words]
    with _run(command) as process:
        assert process.stdout is not None
        port = process.stdout.readline()
        if not port:
            raise RuntimeError(f"{name} did not start")
        yield Target(name, process.pid, int(port))


@contextlib.contextmanager
def run_gateway(config: Path, port: int, module: str = "gateway") -> Iterator[Target]:
    """Start the gateway like an operator does, or another module that runs it."""
    log = config.with_name("gateway.log")
    with log.open("wb") as err:
        command = [sys.executable, "-m", module, "--config", str(config)]
        with _run(command, stderr=err.fileno()) as process:
            deadline = time.monotonic() + START_SECONDS
            while not _accepts(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the gateway did not start:\n{log.read_text()[-2000:]}")
                time.sleep(0.02)
            yield Target("gateway", process.pid, port)


@contextlib.contextmanager
def _run(command: list[str], stderr: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
