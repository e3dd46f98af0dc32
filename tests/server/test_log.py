"""The log: what the process tells of itself."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import select
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from gateway.server import log
from gateway.server.log import LogWriter
from tests.support import config, seed
from tests.support.process import GatewayProcess, free_port
from tests.support.seed import Seed

PIPE_BYTES: Final = 4096
"""The least that Linux gives a pipe."""
LINE_CHARS: Final = 100
LOST: Final = re.compile(r"WARNING gateway\.log the log could not be written in time: (\d+) lines")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    yield reading, writing
    for one in (reading, writing):
        with contextlib.suppress(OSError):
            os.close(one)


def make_writer(descriptor: int) -> LogWriter:
    writer = LogWriter(descriptor)
    writer.setFormatter(logging.Formatter(log.FORMAT))
    return writer


def read_until(reading: int, end: str) -> str:
    """Read until the text ends with this; pytest's time-out ends a wait in vain."""
    text = ""
    while not text.endswith(end):
        data = os.read(reading, 1 << 20)
        assert data, text
        text += data.decode()
    return text


def test_lines_keep_their_order_whoever_makes_them(pipe: tuple[int, int]) -> None:
    """Those that are still to be made are made by the thread that writes, or told as lost."""
    makers: list[str] = []

    def make(text: str) -> str:
        makers.append(threading.current_thread().name)
        return text

    def fail() -> str:
        raise ValueError("sk-gw-secret")

    writer = make_writer(pipe[1])
    writer.write("")
    writer.write("first\n")
    assert read_until(pipe[0], "\n") == "first\n"
    writer.write("")
    writer.write_later(partial(make, "second\nthird\n"), 2)
    writer.handle(logging.LogRecord("x", logging.ERROR, "", 0, "fourth %s", ("\ud800",), None))
    writer.write_later(fail, 7)
    writer.write("last\n")
    writer.close()
    second, third, fourth, lost, last = os.read(pipe[0], PIPE_BYTES).decode().splitlines()
    assert (second, third, last) == ("second", "third", "last")
    assert fourth.endswith(r"ERROR x fourth \ud800")
    assert lost.endswith("the log could not be formatted (ValueError): 7 lines are lost")
    assert makers == ["log"]


class Maker:
    """Makes one line and knows whether it was asked to."""

    asked = False

    def make(self) -> str:
        self.asked = True
        return "made\n"


def test_lines_that_find_the_queue_full_are_never_made(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "QUEUE_CHARS", 2 * PIPE_BYTES)
    maker = Maker()
    writer = make_writer(pipe[1])
    writer.write("x" * (2 * PIPE_BYTES - 1) + "\n")
    writer.write_later(maker.make, 5)
    assert "5 lines are lost" in read_until(pipe[0], "lost\n")
    writer.close()
    assert not maker.asked


def test_no_line_is_made_for_the_null_device() -> None:
    maker = Maker()
    with Path(os.devnull).open("wb") as null:
        writer = make_writer(null.fileno())
        writer.write_later(maker.make, 1)
        writer.close()
    assert not maker.asked
    assert writer._lost == 0


def test_a_reader_that_stalls_is_told_what_was_lost(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting lines stay bounded, come in order, and each lost line is counted once."""
    monkeypatch.setattr(log, "QUEUE_CHARS", 10 * PIPE_BYTES)
    reading, writing = pipe
    writer = make_writer(writing)
    lines = [f"{number:{LINE_CHARS - 1}d}\n" for number in range(1000)]
    for line in lines:
        writer.write(line)
    text, lost, kept = "", 0, ""
    while lost + len(kept) // LINE_CHARS < len(lines):  # a slow machine may be told in parts
        text += read_until(reading, "lost\n")
        lost = sum(map(int, LOST.findall(text)))
        kept = "".join(line for line in text.splitlines(keepends=True) if not LOST.search(line))
    assert lost + len(kept) // LINE_CHARS == len(lines)
    assert kept == "".join(sorted(kept.splitlines(keepends=True)))
    assert kept.startswith("".join(lines[: PIPE_BYTES // LINE_CHARS]))
    assert PIPE_BYTES < len(kept) <= 11 * PIPE_BYTES, "more than the queue and the pipe hold"
    writer.write("after\n")
    assert read_until(reading, "\n") == "after\n"
    writer.close()


def test_a_reader_that_is_gone_does_no_harm(pipe: tuple[int, int]) -> None:
    """Nothing is tried again and again, and the end does not wait."""
    reading, writing = pipe
    os.close(reading)
    writer = make_writer(writing)
    writer.write("lost\n")
    writer.close()
    assert not writer._thread.is_alive()
    assert writer._lost == 1


def test_a_descriptor_that_does_not_block_is_waited_for(pipe: tuple[int, int]) -> None:
    """A program that shares the terminal may have set it so."""
    reading, writing = pipe
    os.set_blocking(writing, False)
    writer = make_writer(writing)
    text = "x" * (3 * PIPE_BYTES) + "\n"
    writer.write(text)
    assert read_until(reading, "\n") == text
    writer.close()


def test_the_end_does_not_wait_for_ever(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "FLUSH_SECONDS", 0.01)
    writer = make_writer(pipe[1])
    writer.write("x" * (3 * PIPE_BYTES) + "\n")
    writer.close()
    assert writer._thread.is_alive()
    assert writer._thread.daemon
    read_until(pipe[0], "\n")
    writer._thread.join()


@pytest.fixture
def unheard(tmp_path: Path, places: config.Places) -> Iterator[GatewayProcess]:
    """A configured gateway that is not started; killed at the end if it still runs."""
    gateway = GatewayProcess(tmp_path, free_port())
    kinds = {"plain": config.Kind(("alpha",), 1)}
    text = config.write_config(places, port=gateway.port, kinds=kinds)
    gateway.config.write_text(text, encoding="utf-8")
    seed.seed(gateway.database, (Seed("rich"),))
    yield gateway
    gateway.kill()


@pytest.mark.slow
async def test_a_log_that_nobody_reads_stops_nothing(
    unheard: GatewayProcess, pipe: tuple[int, int]
) -> None:
    reading, writing = pipe
    unheard.start(stderr=writing)
    os.close(writing)
    requests = 200  # their lines are four times what the pipe takes
    for _ in range(requests):
        assert (await unheard.ask("GET", "/nothing")).status == 404
    assert (await unheard.ask("GET", "/healthz")).status == 200
    assert select.select((reading,), (), (), 0)[0]
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(read_until(reading, "stopped\n")))
    reader.start()
    assert unheard.process is not None
    unheard.process.terminate()
    reader.join()
    assert unheard.process.wait() == 0
    assert heard[0].count("status=404") == requests
