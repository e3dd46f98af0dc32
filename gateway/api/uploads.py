"""Forms with a file, read as they arrive. A small file is kept in memory, a larger one on disk.

The file on disk has no name, so nothing is left of it once the request or the process has ended. It can
be read again for each route. A byte on disk counts as an eighth of a byte in memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import IO, Final, TypeVar

import orjson
from aiohttp import hdrs, web

from gateway.api.bodies import check_encoding, count_body, read_pieces
from gateway.api.completions import serve_completion
from gateway.api.state import Call
from gateway.dialects.wire.forms import FormReader
from gateway.errors import Overloaded

log = logging.getLogger("gateway.uploads")

MEMORY_BYTES: Final = 256 << 10
"""Bytes of a file in memory at once: a whole small file, or the part that waits for the disk."""
HEAD_BYTES: Final = 64
"""Bytes of a file that tell its format."""
DISK_FACTOR: Final = 8
"""Bytes on disk that count as one byte in memory, of which a machine has less."""
Result = TypeVar("Result")


async def serve_form(http: web.Request, call: Call) -> web.StreamResponse:
    """Serve a request whose body is a form, and keep its file until the reply has left."""
    kept = KeptFile(call.gateway.config.storage.path.parent, call.gateway.upload_thread)
    try:
        return await serve_completion(http, call, partial(read_form, kept))
    finally:
        kept.close()


async def read_form(kept: KeptFile, http: web.Request, call: Call) -> bytes:
    """Read the form; its file is the call's `upload`. Return its fields as JSON.

    Raises as `read_body`.
    """
    check_encoding(http.headers)
    form = FormReader(http.headers.get(hdrs.CONTENT_TYPE, ""))

    async def take(data: bytes) -> None:
        count_body(call, len(data) // DISK_FACTOR if kept.is_on_disk else len(data))
        await kept.add(form.feed(data))

    began = time.monotonic()
    await read_pieces(http, call, call.gateway.config.server.max_body_mb << 20, take)
    call.waited_seconds += time.monotonic() - began
    form.close()
    await kept.finish(form.file_name, form.content_type)
    call.upload = kept
    return orjson.dumps(form.fields)


class KeptFile:
    """An `Upload`."""

    __slots__ = (
        "_file", "_folder", "_pieces", "_thread", "_waiting_bytes",
        "content_type", "head", "is_on_disk", "name", "size",
    )  # fmt: skip

    def __init__(self, folder: Path, thread: Executor) -> None:
        """`folder`: where the file is kept if that can be written. `thread` does one job at a time."""
        self.name = self.content_type = ""
        self.size = 0
        self.head = b""
        self.is_on_disk = False
        self._folder = folder
        self._thread = thread
        self._file: IO[bytes] | None = None
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0

    async def add(self, data: bytes) -> None:
        """Add bytes to the end. Raises Overloaded if the disk takes no more."""
        self._pieces.append(data)
        self._waiting_bytes += len(data)
        self.size += len(data)
        if self._waiting_bytes > MEMORY_BYTES:
            await self._write()

    async def finish(self, name: str, content_type: str) -> None:
        """Note that the file is whole. Raises as `add`."""
        self.name, self.content_type = name, content_type
        if self.is_on_disk:
            await self._write()
        else:
            self._pieces = [b"".join(self._pieces)]
        self.head = await self.read(0, HEAD_BYTES)

    async def read(self, at: int, most: int) -> bytes:
        if self._file is None:
            return self._pieces[0][at : at + most]
        return await self._run(partial(os.pread, self._file.fileno(), most, at))

    def close(self) -> None:
        """Release the file after the thread's pending work on it."""
        self._pieces = []
        if self.is_on_disk:
            self._thread.submit(self._close)

    async def _write(self) -> None:
        pieces, self._pieces, self._waiting_bytes = self._pieces, [], 0
        self.is_on_disk = True
        try:
            await self._run(partial(self._store, b"".join(pieces)))
        except OSError as error:
            log.error("a caller's file cannot be kept: %s", error)  # noqa: TRY400
            raise Overloaded("The gateway has no room for files. Try again shortly.") from error

    def _store(self, data: bytes) -> None:
        # Done wholly in the thread, so that a cancelled task cannot lose an open file.
        self._file = self._file or _open(self._folder)
        self._file.write(data)
        self._file.flush()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _open(folder: Path) -> IO[bytes]:
    """Open a file without a name: beside the database, or else in the system's temporary folder."""
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError:
        return tempfile.TemporaryFile()
