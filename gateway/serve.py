"""`serve`: the ledger, the application, the socket, the signals, in that order and back."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from gateway.access_log import AccessLog
from gateway.apikeys import digest
from gateway.app import make_app, make_gateway
from gateway.callerwatch import CallerWatch
from gateway.config import Config
from gateway.errors import Overloaded
from gateway.first_start import make_first_account, show_first_key
from gateway.ledger.base import Ledger, LedgerError, LedgerMismatch
from gateway.ledger.sqlite import SqliteLedger
from gateway.state import Gateway
from gateway.tasks import spawn

log = logging.getLogger("gateway.serve")

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_AUDIT_MISMATCH: Final = 3
EXIT_UNAVAILABLE: Final = 69

LINGER_SECONDS: Final = 2.0
"""How long the rest of a refused body is read, so that the caller gets to see the refusal."""
STOP_SECONDS: Final = 1.0
"""What requests that were told to end get for it."""
CLEANUP_SECONDS: Final = 0.5
IDLE_POLL_SECONDS: Final = 0.05
BACKLOG: Final = 1024
COLLECT_SECONDS: Final = 20.0
GC_THRESHOLD: Final = 50_000
"""Allocations between collections; nearly nothing here is cyclic (design.md §7)."""


class CannotListen(Exception):
    """The address is taken, or not ours."""


def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT; the exit code."""
    _set_up_logging()
    _raise_file_limit()
    with asyncio.Runner(loop_factory=_find_loop_factory()) as runner:
        try:
            return runner.run(_serve(config))
        except LedgerMismatch as error:
            log.error("%s", error)  # noqa: TRY400 - the text is all there is to say
            return EXIT_AUDIT_MISMATCH
        except (LedgerError, CannotListen) as error:
            log.error("%s", error)  # noqa: TRY400
            return EXIT_UNAVAILABLE


async def _serve(config: Config) -> int:
    stop = _catch_signals()
    async with SqliteLedger.open(config.storage.path) as ledger:
        access_log = AccessLog(config.server.log)
        gateway = make_gateway(config, ledger, access_log.write)
        runner = web.AppRunner(
            make_app(gateway),
            access_log=None,
            auto_decompress=False,
            handle_signals=False,
            handler_cancellation=False,
            keepalive_timeout=config.server.header_seconds,
            lingering_time=LINGER_SECONDS,
            shutdown_timeout=CLEANUP_SECONDS,
        )
        await runner.setup()
        assert runner.server is not None
        callers = CallerWatch(
            runner.server, config.server.header_seconds, config.server.stall_seconds
        )
        listening: asyncio.Server | None = None
        sweeping = spawn(callers.run(), name="caller-watch")
        collecting = spawn(_collect_garbage(), name="garbage")
        try:
            listening = await _bind(runner.server, config)
            address = _name_address(listening)
            await _start_first(config, ledger, address)
            await listening.start_serving()
            _announce(config, address)
            _tune_gc()
            is_well = await _wait_for_end(ledger, stop)
            await _drain(gateway, callers, stop.second)
        finally:
            sweeping.cancel()
            collecting.cancel()
            if listening is not None:
                listening.close()
            await runner.cleanup()
            await _wait_for_handlers(gateway)
            gateway.watch.close()
            gateway.routes.close()
            access_log.flush()
    log.info("stopped")
    return EXIT_OK if is_well else EXIT_FAILED


async def _wait_for_end(ledger: SqliteLedger, stop: Stop) -> bool:
    """Until there is a signal (True), or the ledger's writer died: whoever restarts us mends it."""
    loop = asyncio.get_running_loop()
    signalled = loop.create_task(stop.first.wait())
    ended = loop.create_task(ledger.wait_ended())
    await asyncio.wait((signalled, ended), return_when=asyncio.FIRST_COMPLETED)
    is_well = signalled.done()
    if not is_well:
        log.critical("the ledger's writer is dead; stopping")
        stop.note()
        stop.note()
    signalled.cancel()
    ended.cancel()
    return is_well


async def _bind(server: web.Server, config: Config) -> asyncio.Server:
    """Take the address, but no connections yet. Raises CannotListen."""
    host, port = config.server.host, config.server.port
    try:
        return await asyncio.get_running_loop().create_server(
            server, host, port, backlog=BACKLOG, reuse_address=True, start_serving=False
        )
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise CannotListen(f"cannot listen on {host}:{port}: {reason}") from error


def _name_address(listening: asyncio.Server) -> str:
    """`host:port` as it is in the end: port 0 was any free one."""
    host, port = listening.sockets[0].getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _start_first(config: Config, ledger: Ledger, address: str) -> None:
    """On a ledger without accounts: make one, and show its key once the key works."""
    if any(ledger.accounts()):
        return
    secret = make_first_account(config)
    if secret is not None:
        while ledger.find_key(digest(secret)) is None:  # noqa: ASYNC110 - once in a lifetime
            await asyncio.sleep(0.01)
        log.info("%s", show_first_key(config, address, secret))


def _announce(config: Config, address: str) -> None:
    for provider in config.providers.values():
        if provider.off is not None:
            models = [
                model.id
                for model in config.models.values()
                if any(route.provider == provider.name for route in model.routes)
            ]
            log.info("provider %s is off: %s (%s)", provider.name, provider.off, ", ".join(models))
    count = len(config.active_models())
    log.info("listening on http://%s, %d models", address, count)


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


async def _drain(gateway: Gateway, callers: CallerWatch, hurry: asyncio.Event) -> None:
    """Let requests in flight end; then end them, each with an error in its dialect.

    The socket stays open meanwhile: `/readyz` says 503, and so does every new request.
    """
    gateway.draining = True
    log.info("stopping: %d requests in flight", gateway.in_flight)
    await _wait_until_idle(callers, gateway.config.server.drain_seconds, hurry)
    if gateway.in_flight:
        log.warning("stopping: %d requests are cut off", gateway.in_flight)
        error = Overloaded("The gateway was stopped before this reply was complete.")
        gateway.watch.stop_all(error)
    await _wait_until_idle(callers, STOP_SECONDS, asyncio.Event())
    callers.abort_all()


async def _wait_for_handlers(gateway: Gateway) -> None:
    """Handlers whose callers were cut off still have their holds to resolve."""
    until = asyncio.get_running_loop().time() + STOP_SECONDS
    while gateway.in_flight and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110
        await asyncio.sleep(IDLE_POLL_SECONDS)


async def _wait_until_idle(callers: CallerWatch, seconds: float, hurry: asyncio.Event) -> None:
    """Until all replies are out, the time is over or somebody cannot wait."""
    until = asyncio.get_running_loop().time() + seconds
    while not hurry.is_set() and not callers.is_idle():
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


async def _collect_garbage() -> None:
    """What is cyclic after all (errors and their frames): the thresholds alone would let it gather."""
    while True:
        await asyncio.sleep(COLLECT_SECONDS)
        gc.collect()


def _find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where the `speed` extra is installed."""
    try:
        import uvloop  # type: ignore[import-not-found,unused-ignore] # an optional extra
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
