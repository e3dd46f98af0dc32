"""The names of processes that serve from one ledger."""

from __future__ import annotations

import os
import socket

from gateway import ledger


def name_process(pid: int, host: str | None = None) -> str:
    """Name a process, by default one of this machine."""
    return f"process {pid} on {host or socket.gethostname()}"


def name_node(location: ledger.Location) -> str | None:
    """Name this process if others can serve from the ledger, too."""
    return name_process(os.getpid()) if isinstance(location, ledger.DatabaseUrl) else None
