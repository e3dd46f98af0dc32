"""Count the pages that the ledger writes for a charged request: `python -m tests.bench.pages`.

Quick JSON requests, one after the other: each is one commit. The count is that of the frames in the
write-ahead log, which is not written back meanwhile, so nothing else on the machine changes it.
"""

from __future__ import annotations

import asyncio
import sqlite3
import struct
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

from gateway.base.ids import make_request_id
from gateway.base.times import unix_ms
from gateway.ledger.base import Key
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving import open_sqlite
from tests.ledger.contract.kit import admission, settlement
from tests.ledger.kit import find_key, make_place

REQUESTS: Final = 4000
_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24


def connect_without_checkpoints(path: Path, **options: Any) -> sqlite3.Connection:
    connection = connect(path, **options)
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("PRAGMA synchronous = OFF")  # waiting for the disk writes no page
    return connection


async def count_pages(folder: Path, requests: int) -> dict[str, float]:
    """Return the pages per request by the table or index that they belong to."""
    place = make_place(folder)
    log = place.path.with_name(place.path.name + "-wal")
    opened = open_sqlite(place.path, connector=connect_without_checkpoints)
    async with opened as ledger, _reading(place.path):
        key = find_key(ledger, place)
        await _charge_often(ledger, key, requests // 4)
        begun = log.stat().st_size
        await _charge_often(ledger, key, requests)
        names = _read_names(place.path)
        frames = Counter(names.get(page, "other") for page in _read_frames(log, begun))
    return {name: count / requests for name, count in frames.most_common()}


async def _charge_often(ledger: ServingLedger, key: Key, requests: int) -> None:
    for _ in range(requests):
        hold = ledger.hold(key, admission(id_=make_request_id(unix_ms())))
        await ledger.settle(hold, settlement(7))


@asynccontextmanager
async def _reading(path: Path) -> AsyncIterator[None]:
    """Read, which keeps the log from being truncated."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM accounts").fetchall()
        yield


def _read_names(path: Path) -> dict[int, str]:
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT pageno, name FROM dbstat"))


def _read_frames(log: Path, begun: int) -> Iterator[int]:
    """Yield the number of the page of each frame from that offset on."""
    with log.open("rb") as file:
        (page_bytes,) = struct.unpack(">I", file.read(12)[8:])
        begun = max(begun, _HEADER_BYTES)
        for offset in range(begun, log.stat().st_size, page_bytes + _FRAME_HEADER_BYTES):
            file.seek(offset)
            yield struct.unpack(">I", file.read(4))[0]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        pages = asyncio.run(count_pages(Path(folder), REQUESTS))
    for name, count in pages.items():
        print(f"{count:8.2f}   {name}")
    print(f"{sum(pages.values()):8.2f} pages per charged request")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
