"""Keep memory small and collections short: the garbage collector's settings, and the C library's heap."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

COLLECT_SECONDS: Final = 20.0
"""Seconds between two looks whether there is time for a collection: garbage grows slowly, so that is often
enough."""
MAX_LOOKS: Final = 180
"""Looks after which memory is collected although requests are in flight: an hour."""
GC_THRESHOLDS: Final = (10_000, 1_000, 1_000)
"""New objects after which a collection begins, which takes a millisecond. Objects that survived once are left to
`collect`: with a thousand streams they would take more than 50 ms."""

_MALLOPT: Final = {"trim threshold": -1, "mmap threshold": -3, "arena max": -8}
"""Numbers of parameters of glibc's mallopt(3), from malloc.h."""
KEPT_BYTES: Final = 1 << 30
"""No block is larger: orjson asks for twelve times the bytes of a text, and uses few of them."""

_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""The variables with the paths of the system's certificates for OpenSSL."""


@contextmanager
def skip_certificates() -> Iterator[None]:
    """Let the modules that are imported make TLS contexts that trust nobody.

    aiohttp's server imports its client, which nothing here uses and which loads the system's
    certificates at once: 2 MiB and 30 ms.
    """
    kept = {name: os.environ.get(name) for name in _CERTIFICATES}
    os.environ.update(dict.fromkeys(_CERTIFICATES, os.devnull))
    try:
        yield
    finally:
        for name, value in kept.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


def tune_gc() -> None:
    """Exempt existing objects from collection and collect rarely. This halves the p99 under load."""
    # First of all: garbage that is frozen is never collected.
    gc.collect()
    find_trim()()  # 0.3 MiB that imports and the start leave behind
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def reuse_large_blocks() -> None:
    """Make the C library take memory for large bodies from one heap, and keep it between bodies.

    Otherwise each block of some MiB is mapped anew, and the kernel clears it page by page: 36,000
    pages and 40 % of the time of a request with 28 MiB, while no other thread runs. `collect` gives the
    memory back. Call this before there are threads, since each gets a heap of its own.
    """
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_MALLOPT["arena max"], 1)
        if mallopt(
            _MALLOPT["mmap threshold"], KEPT_BYTES
        ):  # glibc before 2.35 takes 32 MiB at most
            mallopt(_MALLOPT["trim threshold"], KEPT_BYTES)


async def collect(is_idle: Callable[[], bool]) -> None:
    """Collect cyclic garbage and give the heap back, which has holes, while nothing is in flight.

    Requests leave no such garbage. Connections do: each of asyncio's transports is in a cycle.
    """
    trim, looks = find_trim(), 0
    while True:
        await asyncio.sleep(COLLECT_SECONDS)
        looks += 1
        if is_idle() or looks >= MAX_LOOKS:
            gc.collect()
            trim()
            looks = 0


def find_trim() -> Callable[[], object]:
    """Return glibc's malloc_trim(3); other C libraries have none."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return (lambda: None) if trim is None else (lambda: trim(ctypes.c_size_t(0)))
