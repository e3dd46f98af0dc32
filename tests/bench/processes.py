"""The measured processes: started, observed from outside, stopped by their own id."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests import ROOT
from tests.support.process import accepts

ALL_CORES: Final = sorted(os.sched_getaffinity(0))
TARGET_CORES: Final = ALL_CORES[:1]
"""The cores of measured processes. The provider and the callers have the others."""
OTHER_CORES: Final = ALL_CORES[1:] or ALL_CORES
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
def run_script(name: str, *words: str, cores: Sequence[int] = OTHER_CORES) -> Iterator[Target]:
    """Start a module of this package, which prints its port once it listens."""
    command = [sys.executable, "-m", f"tests.bench.{name}", *words]
    with _run(command, cores) as process:
        assert process.stdout is not None
        port = process.stdout.readline()
        if not port:
            raise RuntimeError(f"{name} did not start")
        yield Target(name, process.pid, int(port))


def run_upstream(events: int, tick_ms: float) -> contextlib.AbstractContextManager[Target]:
    """Start the provider, whose streams have so many events."""
    return run_script("upstream", f"--events={events}", f"--tick-ms={tick_ms}")


@contextlib.contextmanager
def run_gateway(
    config: Path, port: int, module: str = "gateway", cores: Sequence[int] = TARGET_CORES
) -> Iterator[Target]:
    """Start the gateway like an operator does, or another module that runs it."""
    log = config.with_name("gateway.log")
    with log.open("wb") as err:
        command = [sys.executable, "-m", module, "--config", str(config)]
        with _run(command, cores, err.fileno()) as process:
            _wait(process, port, log)
            yield Target("gateway", process.pid, port)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not accepts(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"a proxy did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.02)


@contextlib.contextmanager
def _run(
    command: list[str], cores: Sequence[int], stderr: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)  # a process inherits it, with all its threads
    try:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr
        )
    finally:
        os.sched_setaffinity(0, own)
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


def raise_file_limit() -> None:
    """Allow this process as many open files as it may have: a stream needs one or two."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
