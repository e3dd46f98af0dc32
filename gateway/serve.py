"""`serve`: the ledger, the application, the socket, the signals, in that order and back."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import sys
from collections.abc import Callable
from typing import Final

from aiohttp import web

from gateway import systemd
from gateway.access_log import AccessLog
from gateway.apikeys import digest
from gateway.app import make_app, make_gateway
from gateway.callerwatch import CallerWatch
from gateway.config import Config
from gateway.drain import (
    GRACE_SECONDS,
    Exit,
    Stop,
    catch_signals,
    part_while_draining,
    wait_for_handlers,
)
from gateway.first_start import make_first_account, show_first_account
from gateway.ledger.base import Ledger, LedgerError, LedgerMismatch
from gateway.ledger.sqlite import SqliteLedger
from gateway.listener import CannotListen, Listener, bind
from gateway.state import Gateway
from gateway.tasks import spawn

log = logging.getLogger("gateway.serve")

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_AUDIT_MISMATCH: Final = 3
EXIT_UNAVAILABLE: Final = 69

LINGER_SECONDS: Final = 2.0
"""How long the rest of a refused body is read, so that the caller gets to see the refusal."""
CLEANUP_SECONDS: Final = 0.5
COLLECT_SECONDS: Final = 20.0
GC_THRESHOLD: Final = 50_000
"""Allocations between collections; nearly nothing here is cyclic (design.md §7)."""


def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT; the exit code."""
    _set_up_logging()
    _raise_file_limit()
    manager = systemd.take_manager(os.environ)
    with asyncio.Runner(loop_factory=_find_loop_factory()) as runner:
        try:
            return runner.run(_serve(config, manager))
        except LedgerMismatch as error:
            return _give_up(manager, error, EXIT_AUDIT_MISMATCH)
        except (LedgerError, CannotListen, systemd.BadSocket) as error:
            return _give_up(manager, error, EXIT_UNAVAILABLE)


def _give_up(manager: systemd.Manager, error: Exception, code: int) -> int:
    log.error("%s", error)
    manager.notify(f"STATUS={error}")
    return code


async def _serve(config: Config, manager: systemd.Manager) -> int:
    stop = catch_signals()
    passed = systemd.take_sockets(os.environ)
    async with SqliteLedger.open(config.storage.path) as ledger:
        access_log = AccessLog(config.server.log)
        gateway = make_gateway(config, ledger, access_log.write)
        runner = _make_runner(gateway)
        await runner.setup()
        server = runner.server
        assert server is not None
        callers = CallerWatch(server, config.server.header_seconds, config.server.stall_seconds)
        listener: Listener | None = None
        chores = [spawn(callers.run(), name="caller-watch"), spawn(_collect(), name="garbage")]
        try:
            listener = await bind(server, config.server, passed)
            await _start_first(config, ledger, listener.address)
            _tune_gc()
            await listener.start()
            manager.notify("READY=1", f"STATUS={_announce(config, listener)}")
            chores.append(spawn(manager.keep_alive(), name="watchdog"))
            is_well = await _wait_for_end(ledger, stop)
            _tell_stopping(manager, gateway)
            await Exit(gateway, server, callers, listener).drain(stop.second)
        finally:
            for chore in chores:
                chore.cancel()
            if listener is not None:
                listener.close()
            await runner.cleanup()
            await wait_for_handlers(gateway)
            gateway.watch.close()
            gateway.routes.close()
            access_log.flush()
    log.info("stopped")
    return EXIT_OK if is_well else EXIT_FAILED


def _make_runner(gateway: Gateway) -> web.AppRunner:
    app = make_app(gateway)
    app.on_response_prepare.append(part_while_draining)
    return web.AppRunner(
        app,
        access_log=None,
        auto_decompress=False,
        handle_signals=False,
        handler_cancellation=False,
        keepalive_timeout=gateway.config.server.header_seconds,
        lingering_time=LINGER_SECONDS,
        shutdown_timeout=CLEANUP_SECONDS,
    )


def _tell_stopping(manager: systemd.Manager, gateway: Gateway) -> None:
    """That it ends, and the time it may take, whatever the unit's own time-out says."""
    seconds = gateway.config.server.drain_seconds + GRACE_SECONDS
    manager.notify(
        "STOPPING=1",
        f"STATUS=stopping: {gateway.in_flight} requests in flight",
        f"EXTEND_TIMEOUT_USEC={round(seconds * 1e6)}",
    )


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


async def _start_first(config: Config, ledger: Ledger, address: str) -> None:
    """On a ledger without accounts: make one, and show its key once the key works."""
    if any(ledger.accounts()):
        return
    first = make_first_account(config)
    if first is not None:
        while ledger.find_key(digest(first.secret)) is None:  # noqa: ASYNC110 - once in a lifetime
            await asyncio.sleep(0.01)
        log.info("%s", show_first_account(config, address, first))


def _announce(config: Config, listener: Listener) -> str:
    """Log what is served where; the line that says it."""
    for provider in config.providers.values():
        if provider.off is not None:
            models = [
                model.id
                for model in config.models.values()
                if any(route.provider == provider.name for route in model.routes)
            ]
            log.info("provider %s is off: %s (%s)", provider.name, provider.off, ", ".join(models))
    count = len(config.active_models())
    line = f"listening on {', '.join(listener.names)}, models: {count}"
    log.info("%s", line)
    return line


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


async def _collect() -> None:
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
