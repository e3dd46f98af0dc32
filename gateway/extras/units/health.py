"""`health`: asks the gateway that listens on this machine whether it accepts requests."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

from gateway.base.addresses import REACHABLE, join_address, list_hosts
from gateway.base.process import ExitCode
from gateway.cli.command import Command
from gateway.cli.verbs import verb
from gateway.config.load import load_table
from gateway.ledger.records import Refused

ASK_SECONDS: Final = 5.0
"""Seconds for the answer of a gateway that is asked for its health: it takes milliseconds, so one that takes
longer hangs."""
_STATUS: Final = re.compile(r"HTTP/1\.[01] ([0-9]{3}) ")
_QUESTION: Final = b"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n"


@verb("health", examples=("health", "health --json"), load=partial(load_table, name="server"))
def health(command: Command) -> int:
    server = command.config.server
    if not server.port:
        raise Refused("A gateway at any free port cannot be asked. Set [server] port.")
    status, words = ask_readiness(_list_reachable(server.host), server.port)
    is_ready = status == HTTPStatus.OK
    command.show({"ready": is_ready, "words": words}, words if is_ready else "")
    if not is_ready:
        command.say(f"Not ready: {words}.")
    return ExitCode.OK if is_ready else ExitCode.FAILED


def ask_readiness(hosts: Sequence[str], port: int) -> tuple[int, str]:
    """Return the status and the words of the first host that answers; 0 and why if none does."""
    told = ""
    for host in hosts:
        address = join_address(host, port)
        try:
            with socket.create_connection((host, port), ASK_SECONDS) as asked:
                asked.sendall(_QUESTION)
                answer = b"".join(iter(partial(asked.recv, 1 << 16), b""))
        except OSError as error:
            told = told or f"nothing answers at {address} ({error.strerror or error})"
            continue
        head, _, body = answer.decode("latin-1").partition("\r\n\r\n")
        if found := _STATUS.match(head):
            return int(found[1]), " ".join(body.split())
        told = told or f"what answers at {address} is no gateway"
    return 0, told


def _list_reachable(host: str) -> list[str]:
    """Return the hosts by which a listening host is reached from the same machine, IPv4 first."""
    return [REACHABLE.get(one, one) for one in reversed(list_hosts(host))]
