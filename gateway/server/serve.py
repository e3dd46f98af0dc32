"""`serve`: start the ledger, the application, the extras and the sockets; stop them in reverse order."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, closing
from functools import partial
from typing import Final

from aiohttp import http_parser, web

from gateway.api.aiohttp_insides import name_server
from gateway.api.routes import add_api
from gateway.api.sink import SERVER
from gateway.api.state import Gateway, make_gateway
from gateway.api.wire import make_connection
from gateway.base.ids import digest
from gateway.base.process import ExitCode, describe_version
from gateway.base.times import unix_ms
from gateway.base.turns import spawn
from gateway.config.load import list_warnings, warn_of_no_model
from gateway.config.records import Config
from gateway.extension import find_advice, tell_mismatch
from gateway.ledger.opening import find_schema, open_ledger
from gateway.ledger.records import LedgerError, LedgerMismatch
from gateway.ledger.serving.ledger import ServingLedger
from gateway.server import systemd
from gateway.server.access_log import AccessLog
from gateway.server.connections import ConnectionWatch, fit_to_files, raise_file_limit
from gateway.server.drain import (
    Signals,
    StoppedAtStart,
    catch_signals,
    close_while_draining,
    drain,
    wait_for_handlers,
)
from gateway.server.first_start import CannotShow, find_key_file, start_first
from gateway.server.listener import CannotListen, Listener, bind
from gateway.server.log import LogWriter, set_up_logging
from gateway.server.memory import collect, reuse_large_blocks, tune_gc

log = logging.getLogger("gateway.serve")

SWITCH_SECONDS: Final = 0.00005
"""How long a thread that computes lets another wait, each time it comes back from a call of the system. A
commit makes fifty such calls: with 0.5 ms it took 120 ms beside a provider that floods, and now 6."""
LINGER_SECONDS: Final = 2.0
"""The pause after which a refused caller has sent all it will: an earlier close could discard the reply."""
START_SECONDS: Final = 60.0
"""How long systemd waits after each sign of a start that goes on."""
CLEANUP_SECONDS: Final = 0.5
"""Time for aiohttp to close connections. The drain has ended their requests before."""


def make_app(gateway: Gateway) -> web.Application:
    app = web.Application()
    for extra in gateway.extras:
        extra.add_routes(app)
    add_api(app, gateway)
    return app


def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT and return the exit code."""
    raise_file_limit()
    # Before the first thread, as each thread gets a separate heap.
    reuse_large_blocks()
    sys.setswitchinterval(SWITCH_SECONDS)
    manager = systemd.take_manager(os.environ)
    with (
        # The last to be closed, as all others log until their end.
        closing(set_up_logging()) as writer,
        asyncio.Runner(loop_factory=find_loop_factory()) as runner,
    ):
        try:
            log.info("gateway %s", describe_version(find_schema(config.storage.location)))
            _check_parser()
            return runner.run(_serve(fit_to_files(config), manager, writer))
        except StoppedAtStart:
            log.info("stopping during the start")
            return ExitCode.OK
        # A LedgerError, too, but with a code of its own, for which systemd does not restart the service.
        except LedgerMismatch as error:
            # Told before the process ends: nobody else would tell it.
            tell_mismatch(config, f"The gateway did not start: {error}", unix_ms(), None)
            return _report_failure(manager, error, ExitCode.AUDIT_MISMATCH)
        except (LedgerError, CannotListen, CannotShow, systemd.BadSocket) as error:
            return _report_failure(manager, error, ExitCode.UNAVAILABLE)


def find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return uvloop's factory if the `speed` extra is installed, else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return _make_plain_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _make_plain_loop() -> asyncio.AbstractEventLoop:
    """Make asyncio's loop, with a clock of one call: each turn reads it twice."""
    loop = asyncio.new_event_loop()
    vars(loop)["time"] = time.monotonic  # its own method returns the same
    return loop


def _report_failure(manager: systemd.Manager, error: Exception, code: ExitCode) -> ExitCode:
    log.error("%s", error)
    manager.notify(f"STATUS={error}")
    return code


async def _serve(config: Config, manager: systemd.Manager, writer: LogWriter) -> ExitCode:
    signals = catch_signals()
    passed = systemd.take_sockets(os.environ)
    opening = open_ledger(
        config.storage.location,
        tell=partial(_tell_starting, manager),
        retention_months=config.storage.retention_months,
    )
    async with AsyncExitStack() as ending:
        ledger = await signals.cancel_at_first(ending.enter_async_context(opening))  # ends last
        access_log = AccessLog(config.server.log, writer.write_later)
        ending.callback(access_log.flush)
        gateway = make_gateway(config, ledger)
        gateway.listeners.append(access_log.write)
        gateway.reloaded.append(access_log.reconfigure)
        ending.callback(gateway.close)
        ending.push_async_callback(wait_for_handlers, gateway)  # once `cleanup` has cut them off
        runner, server = await _set_up(gateway)
        ending.push_async_callback(runner.cleanup)
        for extra in gateway.extras:
            await ending.enter_async_context(extra.run())
        connections = ConnectionWatch(server, gateway.config.server)
        gateway.reloaded.append(connections.reconfigure)
        connect = partial(make_connection, gateway, server)
        listener = await bind(connect, connections, config.server, passed)
        ending.callback(listener.close)
        _run(ending, "connection-watch", connections.run())
        _run(ending, "garbage", collect(lambda: not gateway.in_flight))
        await _start_first(config, ledger, listener.address)  # before anybody is accepted
        tune_gc()  # after everything that lives as long as the process, which it exempts
        listener.start()
        announce = partial(_announce, manager, listener, gateway)
        gateway.reloaded.append(announce)
        announce(gateway.config, "READY=1")  # only now: systemd then starts what needs the service
        _run(ending, "watchdog", manager.keep_alive())
        is_well = await _wait_for_end(ledger, signals)
        _tell_stopping(manager, gateway)
        await drain(gateway, connections, listener, signals.second)
    log.info("stopped")
    return ExitCode.OK if is_well else ExitCode.FAILED


def _run(ending: AsyncExitStack, name: str, chore: Coroutine[object, None, None]) -> None:
    """Run a chore beside the requests until the end begins."""
    ending.callback(spawn(chore, name=name).cancel)


async def _set_up(gateway: Gateway) -> tuple[web.AppRunner, web.Server]:
    """Make the application's server, which has no socket yet."""
    app = make_app(gateway)
    app.on_response_prepare.append(partial(close_while_draining, gateway))
    name_server(SERVER)
    runner = web.AppRunner(
        app,
        # `AccessLog` writes the lines, and never a body or a key.
        access_log=None,
        # Encoded bodies are refused unread: a few packed bytes might be gigabytes.
        auto_decompress=False,
        # aiohttp's own handlers would end the process without a drain.
        handle_signals=False,
        # A caller that leaves must not cancel the handler, which has to settle its request.
        handler_cancellation=False,
        # The watch of all connections ends those that idle too long, see `_process_keepalive`.
        keepalive_timeout=0,
        lingering_time=LINGER_SECONDS,
        shutdown_timeout=CLEANUP_SECONDS,
    )
    await runner.setup()
    assert runner.server is not None
    return runner, runner.server


def _tell_starting(manager: systemd.Manager, step: str) -> None:
    """Log how far a long start is, and let systemd wait on."""
    log.info("starting: %s", step)
    manager.notify(f"STATUS=starting: {step}", f"EXTEND_TIMEOUT_USEC={round(START_SECONDS * 1e6)}")


def _tell_stopping(manager: systemd.Manager, gateway: Gateway) -> None:
    """Tell systemd that the service stops, and how long that may take.

    This extends the unit's TimeoutStopSec=, which may be shorter than the drain.
    """
    seconds = gateway.config.server.drain_seconds + systemd.GRACE_SECONDS
    manager.notify(
        "STOPPING=1",
        f"STATUS=stopping: {gateway.in_flight} requests in flight",
        f"EXTEND_TIMEOUT_USEC={round(seconds * 1e6)}",
    )


async def _wait_for_end(ledger: ServingLedger, signals: Signals) -> bool:
    """Wait for a signal to stop, then return True; return False if the ledger commits nothing more.

    Requests cannot be charged then, so the process stops and systemd restarts it.
    """
    loop = asyncio.get_running_loop()
    signalled = loop.create_task(signals.first.wait())
    ended = loop.create_task(ledger.wait_ended())
    await asyncio.wait((signalled, ended), return_when=asyncio.FIRST_COMPLETED)
    if signalled.done():
        ended.cancel()
        return True
    signalled.cancel()
    log.critical("stopping: %s", _explain_end(ended))
    signals.first.set()
    signals.second.set()  # cuts the drain short: nothing can be charged any more
    return False


def _explain_end(ended: asyncio.Task[None]) -> str:
    """Say why the ledger commits nothing more; only a LedgerError is for operators to read."""
    error = ended.exception()
    if isinstance(error, LedgerError):
        return str(error)
    if error is not None:
        log.error("the ledger failed", exc_info=error)
    return "the ledger commits nothing any more; restart the gateway"


async def _start_first(config: Config, ledger: ServingLedger, address: str) -> None:
    """Make accounts if the ledger has none, and wait until their key works."""
    if any(ledger.accounts()):
        left = find_key_file(config)
        if left.exists():
            log.warning("%s holds a key in the clear: delete it", left)
        return
    first = start_first(config, address)
    if first is not None:
        # The books have another connection: memory gets the key by the next poll.
        while ledger.find_key(digest(first.secret)) is None:  # noqa: ASYNC110 - once in a lifetime
            await asyncio.sleep(0.01)
        log.info("%s", first.shown)


def _announce(
    manager: systemd.Manager, listener: Listener, gateway: Gateway, config: Config, *states: str
) -> None:
    """Log providers that are off, what may not be meant, addresses and number of models.

    The last line is sent to systemd, too. A gateway that drains skips it.
    """
    for provider in config.providers.values():
        if provider.off is not None:
            models = ", ".join(config.models_of(provider))
            log.info("provider %s is off: %s (%s)", provider.name, provider.off, models)
    off = ((one.id, one.off) for one in config.models.values() if one.off is not None)
    for model, reason in (*config.lacking.items(), *off):
        log.info("model %s is off: %s", model, reason)
    if readable := find_advice().warn_of_literals(config.path, config.literals):
        log.warning("%s", readable)
    for warning in (*warn_of_no_model(config), *list_warnings(config)):
        log.warning("%s", warning)
    if gateway.draining:  # after a reload; systemd goes on saying that it stops
        return
    count = len(config.active_models())
    line = f"listening on {', '.join(listener.names)}, models: {count}"
    log.info("%s", line)
    manager.notify(*states, f"STATUS={line}")


def _check_parser() -> None:
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        log.warning(
            "aiohttp has only its parser in Python here, which is several times slower: install a"
            " wheel of aiohttp, and unset AIOHTTP_NO_EXTENSIONS"
        )
