"""The gateway like an operator runs it: its own process, a configuration file, a log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path
from typing import Final

from tests import ROOT
from tests.support import client
from tests.support.cli import Answer, run_here
from tests.support.client import Call, Reply
from tests.support.config import KINDS

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0
PORTS: Final = range(20_000, 32_000)
"""Below those that the kernel gives away, so that nobody takes one before its server."""
WORKERS: Final = 8
"""Processes of a test run: each draws from ports of its own, or two servers would get the same now and then.

Where two runs go on beside each other, GATEWAY_PORTS is the number of the first worker.
"""
CHAT: Final = "/v1/chat/completions"
MESSAGES: Final = "/v1/messages"
RESPONSES: Final = "/v1/responses"
COUNT_TOKENS: Final = "/v1/messages/count_tokens"


def _shuffle_ports() -> Iterator[int]:
    first = os.environ.get("GATEWAY_PORTS", "0")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    ports = list(PORTS[(int(first) + int(worker)) % WORKERS :: WORKERS])
    random.SystemRandom().shuffle(ports)
    return cycle(ports)


_SHUFFLED: Final = _shuffle_ports()


def free_port() -> int:
    """Return a port that no server has, and that none gets from here for a long time."""
    while True:
        port = next(_SHUFFLED)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def accepts(port: int) -> bool:
    """Return whether somebody accepts connections on a port of the loopback."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@dataclass(slots=True)
class GatewayProcess:
    """A running gateway; call `start` first and `stop` last."""

    folder: Path
    port: int
    canaries: list[bytes] = field(default_factory=list)
    """Secrets that must appear nowhere but in the requests that carry them."""
    process: subprocess.Popen[bytes] | None = None
    module: str = "gateway"
    """The module to run; its gateway may be another than this package."""
    _numbers: dict[str, count[int]] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.folder / "gateway.toml"

    @property
    def database(self) -> Path:
        return self.folder / "gateway.db"

    @property
    def log_path(self) -> Path:
        return self.folder / "stderr.log"

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    @property
    def root_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        return f"{self.root_url}/v1"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        return kept | {"GATEWAY_CONFIG": str(self.config), "PYTHONUNBUFFERED": "1"}

    def start(self, *, stderr: int | None = None, open_files: int | None = None) -> None:
        """Start the gateway and return once the port accepts connections.

        The log goes to `stderr` if it is given. `open_files` is the most that may be open.
        """
        limited = (
            () if open_files is None else ("sh", "-c", f'ulimit -n {open_files}; exec "$@"', "")
        )
        with self.log_path.open("ab") as err, (self.folder / "stdout.log").open("ab") as out:
            self.process = subprocess.Popen(
                [*limited, sys.executable, "-m", self.module, "--config", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err if stderr is None else stderr,
                cwd=ROOT,
                env=self.environment,
            )
        deadline = time.monotonic() + START_SECONDS
        try:
            while not accepts(self.port):
                assert self.process.poll() is None, f"the gateway did not start:\n{self.log}"
                assert time.monotonic() < deadline, f"the gateway is not ready:\n{self.log}"
                time.sleep(0.02)
        except AssertionError:
            self.kill()  # no test would
            raise

    def stop(self) -> None:
        """Send SIGTERM; check that it exits with 0 and leaves no traceback or secret."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the gateway did not stop:\n{self.log[-4000:]}") from None
        assert code == 0, f"exit {code}:\n{self.log[-4000:]}"
        assert "Traceback" not in self.log, self.log[-8000:]
        assert self.find_canaries() == []

    def kill(self) -> None:
        """Kill it as `kill -9` does, if it runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def find_canaries(self) -> list[str]:
        """List the files that contain a secret, except the configuration."""
        found = []
        for path in sorted(self.folder.rglob("*")):
            if not path.is_file() or path == self.config:
                continue
            data = path.read_bytes()
            found += [f"{path.name}: {one[:10]!r}…" for one in self.canaries if one in data]
        return found

    def fresh(self, kind: str) -> str:
        """Return a model of that kind which no test has used yet."""
        number = next(self._numbers.setdefault(kind, count()))
        assert number < KINDS[kind].count, f"the configuration needs more models like {kind}"
        return f"{kind}/{number}"

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[Call]:
        async with client.connect(self.port, forbidden=self.canaries) as call:
            yield call

    async def ask(
        self,
        method: str,
        target: str,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
    ) -> Reply:
        """Send one request on its own connection and read the whole reply."""
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        if key is not None:
            pairs.append(("Authorization", f"Bearer {key}"))
        async with self.connect() as call:
            await call.send(client.request(method, target, pairs, body))
            return await call.read_all()

    async def chat(
        self, key: str | None, body: object, *, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Ask for a chat completion; bytes are sent unchanged."""
        return await self.post(CHAT, key, body, headers=headers)

    async def post(
        self, path: str, key: str | None, body: object, *, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Post JSON to any path; bytes are sent unchanged."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        pairs = {"Content-Type": "application/json"} | dict(headers or {})
        return await self.ask("POST", path, key=key, headers=pairs, body=data)

    @contextlib.asynccontextmanager
    async def chatting(self, key: str, body: object, path: str = CHAT) -> AsyncIterator[Call]:
        """Ask for a completion that the test reads piece by piece or abandons."""
        pairs = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        async with self.connect() as call:
            await call.send(client.request("POST", path, pairs, json.dumps(body).encode()))
            yield call

    async def run(self, *words: str) -> Answer:
        """Run a command of the operator while the server runs: in this process, which is not its."""
        return await asyncio.to_thread(run_here, words, self.environment)

    async def run_apart(self, *words: str) -> Answer:
        """Run a command in a process of its own, as one must that might serve."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", *words),
            cwd=ROOT,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        return Answer(process.returncode, out.decode(), err.decode())
