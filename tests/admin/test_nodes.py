"""A process has a name where others can serve from the same ledger."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from gateway.admin import checks
from gateway.ledger.locations import DatabaseUrl


def test_a_process_is_named_by_its_number_and_host() -> None:
    assert checks.name_process(7, "host-a") == "process 7 on host-a"
    assert checks.name_process(7) == f"process 7 on {socket.gethostname()}"


def test_this_process_is_a_node_on_postgresql_alone() -> None:
    assert checks.name_node(Path("gateway.db")) is None
    assert checks.name_node(DatabaseUrl("postgresql:///g")) == checks.name_process(os.getpid())
