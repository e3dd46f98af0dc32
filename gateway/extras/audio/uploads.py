"""Forms with a file, read as they arrive. A small file is kept in memory, a larger one on disk.

The file on disk has no name, so it is gone once the request or the process has ended. It can be read again
for each route. Accounts share the space on disk as they share memory. The ledger is on the same disk, so
files are refused while little space is free.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Final, TypeVar

from aiohttp import hdrs, web

from gateway.api.admission import admit, find_model
from gateway.api.bodies import (
    check_encoding,
    check_share,
    count_body,
    parse,
    read_pieces,
    run_large,
)
from gateway.api.completions import send_reply
from gateway.api.front import KeyedCall
from gateway.base.errors import Overloaded
from gateway.base.usage import TOKENS_PER_SECOND
from gateway.dialects.wire.records import CompletionRequest, Inputs, InputUnit
from gateway.extras.audio import recordings
from gateway.extras.audio.forms import FormReader
from gateway.extras.audio.sent_forms import Form
from gateway.extras.audio.settings import Server

log = logging.getLogger("gateway.uploads")

MEMORY_BYTES: Final = 256 << 10
"""Bytes of a file in memory at once: a whole small file, or the part not written to disk yet."""
HEAD_BYTES: Final = 64
"""Bytes at the beginning of a file that tell its format: the heads of all measured formats fit."""
FREE_BYTES: Final = 512 << 20
"""Bytes that files leave free on their disk: the ledger grows there, too."""
LOOP_PARTS: Final = 16
"""Parts of a form that are read on the event loop at once: they take 0.2 ms."""
LOOP_FIELD_BYTES: Final = 64 << 10
"""Bytes of fields that are written as JSON on the event loop, whatever they contain: they take 1 ms."""
WARN_SECONDS: Final = 60.0
"""Seconds between two log lines about a full disk: many uploads may find it full."""
Result = TypeVar("Result")


@dataclass(slots=True)
class Disk:
    """The callers' files on disk."""

    used_bytes: int = 0
    waiting_bytes: int = 0
    """The part of `used_bytes` that is not written yet."""
    shares: dict[int, int] = field(default_factory=dict)
    """Each account's part of `used_bytes`, by its id; absent if it has none."""
    thread: ThreadPoolExecutor = field(
        default_factory=partial(ThreadPoolExecutor, 1, thread_name_prefix="uploads")
    )
    """Reads and writes the files, one after the other."""
    warned: float = -math.inf
    """When the log last told that there is no space, in the loop's time."""

    def close(self) -> None:
        self.thread.shutdown(wait=False)


async def serve_form(disk: Disk, http: web.Request, call: KeyedCall) -> web.StreamResponse:
    """Serve a request whose body is a form, and keep its file until the reply has left."""
    config = call.gateway.config
    most_bytes = config.find(Server).max_uploads_mb << 20
    kept = KeptFile(config.storage.path.parent, disk, call.key.account.id, most_bytes)
    try:
        request = await parse(call, call.dialect, await read_form(kept, http, call))
        request.upload = kept
        return await send_reply(http, await admit(http, call, request))
    finally:
        kept.close()


async def read_form(kept: KeptFile, http: web.Request, call: KeyedCall) -> bytes:
    """Read the form and keep its file. Return its fields as JSON.

    Raises as `read_body` and, as soon as the form names its model, as `find_model`. A file that comes before
    the model's name is limited by the account's share of the disk.
    """
    check_encoding(http.headers)
    form = FormReader(http.headers.get(hdrs.CONTENT_TYPE, ""))
    is_found = False

    async def take(data: bytes) -> None:
        nonlocal is_found
        feed = partial(form.feed, data)
        is_long = form.count_parts(data) > LOOP_PARTS
        file = await run_large(call, feed) if is_long else feed()
        count_body(call, len(data) - len(file) if kept.is_on_disk else len(data))
        if not is_found and (model := form.find_text("model")) is not None:
            await find_model(call, model, call.dialect.kind)
            is_found = True
        await kept.add(file)

    began = time.monotonic()
    await read_pieces(http, call, call.gateway.config.server.max_body_mb << 20, take)
    call.waited_seconds += time.monotonic() - began
    is_long = form.field_bytes > LOOP_FIELD_BYTES
    fields = await run_large(call, form.dump) if is_long else form.dump()
    await kept.finish(form.file_name, form.content_type)
    return fields


class KeptFile:
    """An `Upload`. `add` and `finish` raise Overloaded and RateLimited while the disk has no space."""

    __slots__ = (
        "_account", "_disk", "_disk_bytes", "_file", "_folder", "_most_bytes", "_pieces", "_waiting_bytes",
        "content_type", "head", "is_on_disk", "name", "size",
    )  # fmt: skip

    def __init__(self, folder: Path, disk: Disk, account: int, most_bytes: int) -> None:
        """Keep an account's file, in `folder` if that is writable. `most_bytes` limits all files together."""
        self.name = self.content_type = ""
        self.size = 0
        self.head = b""
        self.is_on_disk = False
        self._folder = folder
        self._disk = disk
        self._account = account
        self._most_bytes = most_bytes
        self._file: IO[bytes] | None = None
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self._disk_bytes = 0

    async def add(self, data: bytes) -> None:
        """Add bytes to the end."""
        self._pieces.append(data)
        self._waiting_bytes += len(data)
        self.size += len(data)
        if self._waiting_bytes > MEMORY_BYTES:
            await self._write()

    async def finish(self, name: str, content_type: str) -> None:
        """Note that the file is whole."""
        self.name, self.content_type = name, content_type
        if self.is_on_disk:
            await self._write()
        else:
            self._pieces = [b"".join(self._pieces)]
        self.head = await self.read(0, HEAD_BYTES)

    def add_to(self, request: CompletionRequest, unit: InputUnit) -> None:
        """Note the recording of a request, and its possible seconds or tokens."""
        length = recordings.measure(self.head, self.size)
        request.inputs = Inputs(1, length.likely)
        request.more_tokens = length.more
        if unit == "token":
            request.inputs.tokens = request.audio_tokens = length.likely * TOKENS_PER_SECOND
            request.more_tokens *= TOKENS_PER_SECOND

    def pack(self, data: bytes) -> Form:
        return Form(data, self)

    async def read(self, at: int, most: int) -> bytes:
        if self._file is None:
            return self._pieces[0][at : at + most]
        return await self._run(partial(os.pread, self._file.fileno(), most, at))

    def close(self) -> None:
        """Release the file after the thread's pending work on it."""
        self._pieces = []
        if self.is_on_disk:
            self._disk.thread.submit(self._close)
            # Free space is measured in the same thread, so the file is gone by then.
            self._count(-self._disk_bytes)

    async def _write(self) -> None:
        pieces, self._pieces = self._pieces, []
        size, self._waiting_bytes = self._waiting_bytes, 0
        self.is_on_disk = True
        try:
            self._check_room(size, await self._run(self._find_free))
            self._count(size)
            self._disk.waiting_bytes += size
            try:
                await self._run(partial(self._store, b"".join(pieces)))
            finally:
                self._disk.waiting_bytes -= size
        except OSError as error:
            now, disk = asyncio.get_running_loop().time(), self._disk
            if now - disk.warned >= WARN_SECONDS:
                disk.warned = now
                log.error("a caller's file cannot be kept: %s", error)  # noqa: TRY400
            raise Overloaded("The gateway has no room for files. Try again shortly.") from error

    def _check_room(self, size: int, free_bytes: int) -> None:
        """Check the account's share of the disk, and that enough stays free. Raises OSError, too."""
        disk = self._disk
        room = free_bytes - disk.waiting_bytes - FREE_BYTES
        if room < size:
            raise OSError(errno.ENOSPC, f"less than {FREE_BYTES >> 20} MiB would stay free")
        # Accounts share the space that exists: on a small disk one must not take it all.
        budget = min(self._most_bytes, disk.used_bytes + room)
        own, mine = disk.shares.get(self._account, 0) + size, self._disk_bytes + size
        used, accounts = disk.used_bytes + size, len({*disk.shares, self._account})
        check_share(budget, used, own, mine, accounts=accounts, what="disk space")

    def _count(self, size: int) -> None:
        disk, account = self._disk, self._account
        disk.used_bytes += size
        self._disk_bytes += size
        disk.shares[account] = disk.shares.get(account, 0) + size
        # Accounts without files are removed, so that they do not reduce the shares of others.
        if not disk.shares[account]:
            del disk.shares[account]

    def _find_free(self) -> int:
        # The file is opened in the thread, so that a cancelled task cannot lose it.
        self._file = self._file or _open(self._folder)
        status = os.fstatvfs(self._file.fileno())
        return status.f_bavail * status.f_frsize

    def _store(self, data: bytes) -> None:
        assert self._file is not None
        self._file.write(data)
        self._file.flush()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._disk.thread, work)


def _open(folder: Path) -> IO[bytes]:
    """Open a file without a name: beside the database, or else in the system's temporary folder."""
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError:
        return tempfile.TemporaryFile()
