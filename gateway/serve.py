"""`serve`: the ledger, the application, the socket, the signals, in that order and back."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from gateway.apikeys import digest
from gateway.app import make_app, make_gateway
from gateway.config import Config
from gateway.errors import Overloaded
from gateway.first_start import make_first_account, show_first_key
from gateway.headwatch import HeadWatch
from gateway.ledger.base import Ledger, LedgerError, LedgerLocked, LedgerMismatch
from gateway.ledger.sqlite import SqliteLedger
from gateway.state import Gateway
from gateway.tasks import spawn

log = logging.getLogger("gateway.serve")

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_AUDIT_MISMATCH: Final = 3
EXIT_UNAVAILABLE: Final = 69

KEEP_ALIVE_SECONDS: Final = 75.0
LINGER_SECONDS: Final = 2.0
"""How long the rest of a refused body is read, so that the caller gets to see the refusal."""
STOP_SECONDS: Final = 1.0
"""What requests that were told to end get for it."""
CLEANUP_SECONDS: Final = 0.5
IDLE_POLL_SECONDS: Final = 0.05
BACKLOG: Final = 1024
GC_THRESHOLD: Final = 50_000
"""Allocations between collections; nearly nothing here is cyclic (design.md §7)."""


def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT; the exit code."""
    _set_up_logging()
    _raise_file_limit()
    with asyncio.Runner(loop_factory=_find_loop_factory()) as runner:
        try:
            return runner.run(_serve(config))
        except LedgerLocked as error:
            log.error("%s", error)  # noqa: TRY400 - the text is all there is to say
            return EXIT_UNAVAILABLE
        except LedgerMismatch as error:
            log.error("%s", error)  # noqa: TRY400
            return EXIT_AUDIT_MISMATCH
        except LedgerError as error:
            log.error("%s", error)  # noqa: TRY400
            return EXIT_FAILED
        except OSError as error:
            address = f"{config.server.host}:{config.server.port}"
            log.error("cannot listen on %s: %s", address, error.strerror)  # noqa: TRY400
            return EXIT_UNAVAILABLE


async def _serve(config: Config) -> int:
    stop = _catch_signals()
    is_first_start = not config.storage.path.exists()
    async with SqliteLedger.open(config.storage.path) as ledger:
        secret = make_first_account(config) if is_first_start else None
        if secret is not None:
            await _wait_until_known(ledger, secret)
        gateway = make_gateway(config, ledger)
        runner = web.AppRunner(
            make_app(gateway),
            access_log=None,
            auto_decompress=False,
            handle_signals=False,
            handler_cancellation=False,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            lingering_time=LINGER_SECONDS,
            shutdown_timeout=CLEANUP_SECONDS,
        )
        await runner.setup()
        try:
            assert runner.server is not None
            watch = HeadWatch(runner.server, config.server.header_seconds)
            heads = spawn(watch.run(), name="head-watch")
            site = web.TCPSite(runner, config.server.host, config.server.port, backlog=BACKLOG)
            await site.start()
            _announce(config, secret)
            _tune_gc()
            await stop.first.wait()
            await _drain(gateway, stop.second)
        finally:
            heads.cancel()
            await runner.cleanup()
            gateway.watch.close()
            gateway.routes.close()
            gateway.access_log.flush()
    log.info("stopped")
    return EXIT_OK


def _announce(config: Config, secret: str | None) -> None:
    if secret is not None:
        log.info("%s", show_first_key(config, secret))
    for provider in config.providers.values():
        if provider.off is not None:
            models = [
                model.id
                for model in config.models.values()
                if any(route.provider == provider.name for route in model.routes)
            ]
            log.info("provider %s is off: %s (%s)", provider.name, provider.off, ", ".join(models))
    count = len(config.active_models())
    log.info("listening on http://%s:%d, %d models", config.server.host, config.server.port, count)


async def _wait_until_known(ledger: Ledger, secret: str) -> None:
    """A key must work from the moment it is shown; the ledger's writer reads it in shortly."""
    while ledger.find_key(digest(secret)) is None:  # noqa: ASYNC110 - once in a lifetime
        await asyncio.sleep(0.01)


@dataclass(frozen=True, slots=True)
class Stop:
    """The signals to stop: after the first requests in flight may end, after the second not."""

    first: asyncio.Event
    second: asyncio.Event

    def note(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


def _catch_signals() -> Stop:
    """SIGTERM and SIGINT, caught from the very start, so that no stop is an unclean one."""
    stop = Stop(asyncio.Event(), asyncio.Event())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.note)
    return stop


async def _drain(gateway: Gateway, hurry: asyncio.Event) -> None:
    """Let requests in flight end; then end them, each with an error in its dialect.

    The socket stays open meanwhile: `/readyz` says 503, and so does every new request.
    """
    gateway.draining = True
    log.info("stopping: %d requests in flight", gateway.in_flight)
    seconds = gateway.config.server.drain_seconds
    await _wait_until_idle(gateway, seconds, hurry)
    if gateway.in_flight:
        log.warning("stopping: %d requests are cut off", gateway.in_flight)
        error = Overloaded("The gateway was stopped before this reply was complete.")
        gateway.watch.stop_all(error)
        await _wait_until_idle(gateway, STOP_SECONDS, asyncio.Event())


async def _wait_until_idle(gateway: Gateway, seconds: float, hurry: asyncio.Event) -> None:
    until = asyncio.get_running_loop().time() + seconds
    while gateway.in_flight and not hurry.is_set():
        left = until - asyncio.get_running_loop().time()
        if left <= 0:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(hurry.wait(), min(left, IDLE_POLL_SECONDS))


def _set_up_logging() -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    # aiohttp logs what it could not parse, and that may hold a key.
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)


def _raise_file_limit() -> None:
    """Two descriptors a request: the shell's usual 1,024 are soon used up."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _tune_gc() -> None:
    """What lives now lives for good; collect seldom (half the p99, design.md §7)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 100)


def _find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where the `speed` extra is installed."""
    try:
        import uvloop  # type: ignore[import-not-found,unused-ignore] # an optional extra
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
