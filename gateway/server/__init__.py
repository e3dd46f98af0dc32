"""The process that serves: sockets, signals, drain.

    serve        starts and stops the ledger, the application, the extras and the socket
    listener     listens on the configured address or passed sockets; accepts while it has descriptors
    log          writes the log by a thread, so that its reader delays nothing
    access_log   the line of each request
    memory       collects garbage, and gives memory back
    connections  aborts callers' connections that make no progress, or idle ones if they are too many
    drain        catches signals, and lets requests in flight end
    systemd      takes sockets from systemd, tells it states, pings its watchdog
    first_start  makes an account with the demo credit and a key

May import: `base`, `config`, `ledger`, `admin`, `api`, `extension`.
"""

from __future__ import annotations

import signal

from gateway.config.records import Config


def run_server(config: Config) -> int:
    """Serve until SIGTERM or SIGINT and return the exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # it would end the process
    from gateway.server.memory import skip_certificates

    with skip_certificates():
        from gateway.server.serve import run  # the other commands need no web server

    return run(config)
