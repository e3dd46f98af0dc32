"""A service manager for tests: passes sockets, receives notifications, restarts the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import secrets
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from tests import ROOT
from tests.support import config, seed
from tests.support.process import GatewayProcess, free_port
from tests.support.seed import Caller, Seed

DEMO: Final = {"demo": config.Kind(("demo",), 1, "", ("demo",))}
SO_TIMESTAMPNS: Final = 35
"""Linux: each datagram carries the wall clock time at which it was sent."""
TIMESPEC: Final = struct.Struct("ll")
QUEUE: Final = 4096
TCP_INFO_MAX_BACKLOG_AT: Final = 28
"""Offset in the TCP_INFO of a listening socket: `tcpi_sacked`, the length of its queue."""
HIGH_DESCRIPTOR: Final = 100
WAIT_SECONDS: Final = 60.0
DRAIN_SECONDS: Final = 2
"""The value in the test configuration."""

LAUNCH: Final = """
import os, sys
count = int(sys.argv[1])
for number in range(count):
    os.dup2(int(sys.argv[2 + number]), 3 + number)
os.environ["WATCHDOG_PID"] = str(os.getpid())
if count:
    os.environ["LISTEN_PID"] = str(os.getpid())
    os.environ["LISTEN_FDS"] = str(count)
os.execv(sys.executable, [sys.executable, *sys.argv[2 + count:]])
"""
"""Sets LISTEN_PID, which is known only after the fork, and becomes the gateway."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A message to the manager, and when it was sent."""

    at_seconds: float
    """Wall clock time, as the kernel stamped it."""
    fields: Mapping[str, str]

    @classmethod
    def parse(cls, message: bytes, at_seconds: float) -> Notice:
        pairs = (line.partition("=") for line in message.decode().split("\n"))
        return cls(at_seconds, {name: value for name, _, value in pairs})


class Ear:
    """The notify socket; stores all messages in order."""

    def __init__(self, address: str = "") -> None:
        """Bind to this address, or to an abstract one if there is none."""
        self.address = address or f"@gateway-test-{secrets.token_hex(8)}"
        self.notices: list[Notice] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.bind(address or self.address.replace("@", "\0", 1))
        self._came = asyncio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._socket, self._read)
        try:
            yield
        finally:
            loop.remove_reader(self._socket)

    def read_all(self) -> None:
        """Read what was sent so far, without the event loop."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self._read()

    def _read(self) -> None:
        message, ancillary, *_ = self._socket.recvmsg(4096, 128)
        ((_, _, data),) = ancillary
        seconds, nanoseconds = TIMESPEC.unpack(data)
        self.notices.append(Notice.parse(message, seconds + nanoseconds / 1e9))
        self._came.set()

    def find(self, name: str, begin: int = 0) -> list[Notice]:
        return [one for one in self.notices[begin:] if name in one.fields]

    async def wait_for(self, name: str, begin: int = 0) -> Notice:
        """Return the first message from this position on that has the field."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not (found := self.find(name, begin)):
                self._came.clear()
                await self._came.wait()
        return found[0]

    def gaps_seconds(self) -> list[float]:
        """Return the times between successive pings of one process."""
        times: list[float] = []
        gaps: list[float] = []
        for one in self.notices:
            if "WATCHDOG" not in one.fields:
                times = []
                continue
            gaps += [one.at_seconds - times[-1]] if times else []
            times.append(one.at_seconds)
        return gaps


@dataclass(slots=True)
class Service:
    """A gateway run like systemd does: notified, passed sockets, watched and restarted."""

    gateway: GatewayProcess
    caller: Caller
    ear: Ear
    sockets: Sequence[socket.socket] = ()
    watchdog_seconds: float = 30.0
    command: Sequence[str] = ("-m", "gateway")
    variables: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        descriptors = [_raise_descriptor(one) for one in self.sockets]
        words = [str(len(descriptors)), *map(str, descriptors), *self.command]
        environment = self.gateway.environment | {
            "NOTIFY_SOCKET": self.ear.address,
            "WATCHDOG_USEC": str(round(self.watchdog_seconds * 1e6)),
        }
        with self.gateway.log_path.open("ab") as err:
            self.gateway.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", LAUNCH, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=err,
                cwd=ROOT,
                env=environment | self.variables,
                pass_fds=descriptors,
            )
        for one in descriptors:
            socket.close(one)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self.gateway.process is not None
        return self.gateway.process

    async def start_ready(self) -> Notice:
        """Start the gateway and return when it reports that it is ready."""
        begin = len(self.ear.notices)
        self.start()
        return await self.ear.wait_for("READY", begin)

    async def wait_ended(self) -> int:
        """Wait for the process to end and return its exit code."""
        async with asyncio.timeout(WAIT_SECONDS):
            while self.process.poll() is None:  # noqa: ASYNC110 - another process has no event
                await asyncio.sleep(0.002)
        code: int = self.process.returncode
        return code

    async def end(self) -> None:
        """Send SIGTERM and check that the gateway ends cleanly."""
        self.process.terminate()
        code = await self.wait_ended()
        assert code == 0, f"exit {code}:\n{self.gateway.log[-4000:]}"
        assert "Traceback" not in self.gateway.log, self.gateway.log[-8000:]


def _raise_descriptor(one: socket.socket) -> int:
    """Duplicate a descriptor to a number that the launcher does not use."""
    return fcntl.fcntl(one.fileno(), fcntl.F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR)


@contextlib.contextmanager
def queueing(path: str = "") -> Iterator[socket.socket]:
    """Open a listening socket, at a path or on a free port, that outlives the gateway."""
    family = socket.AF_UNIX if path else socket.AF_INET
    address: str | tuple[str, int] = path or ("127.0.0.1", 0)
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.bind(address)
        listening.listen(QUEUE)
        yield listening


def max_backlog(listening: socket.socket) -> int:
    info = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    (backlog,) = struct.unpack_from("I", info, TCP_INFO_MAX_BACKLOG_AT)
    return int(backlog)


@contextlib.asynccontextmanager
async def service(
    folder: Path,
    sockets: Sequence[socket.socket] = (),
    *,
    places: config.Places = config.Places({}),  # noqa: B008 - it is frozen
    kinds: Mapping[str, config.Kind] = DEMO,
    credit_nano: int = 10**6 * seed.NANO,
    drain_seconds: int = DRAIN_SECONDS,
    watchdog_seconds: float = 30.0,
    ear_address: str = "",
) -> AsyncIterator[Service]:
    """Make a configured gateway, by default of the demo alone, that is not started; kill it at the end if it still runs."""
    tcp = [one for one in sockets if one.family == socket.AF_INET]
    gateway = GatewayProcess(folder, tcp[0].getsockname()[1] if tcp else free_port())
    # The file names another port, as the passed sockets take precedence.
    port = free_port() if sockets else gateway.port
    text = config.write_config(places, port=port, kinds=kinds)
    changed = text.replace(f"drain_seconds = {DRAIN_SECONDS}", f"drain_seconds = {drain_seconds}")
    gateway.config.write_text(changed, encoding="utf-8")
    callers = seed.seed(gateway.database, (Seed("rich", credit_nano),))
    gateway.canaries += [callers["rich"].key.encode()]
    try:
        with Ear(ear_address) as ear, ear.listening():
            yield Service(gateway, callers["rich"], ear, sockets, watchdog_seconds)
    finally:
        gateway.kill()
