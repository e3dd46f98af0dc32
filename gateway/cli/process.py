"""The verbs for the process: `serve`, `init` and `health`."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

import gateway
from gateway.base.addresses import join_address, list_reachable
from gateway.base.process import PROGRAM, ExitCode
from gateway.cli import arguments as read
from gateway.cli.command import Command, write_new
from gateway.cli.verbs import DEFAULT_CONFIG, arg, verb
from gateway.config.load import load_config, load_defaults, load_server
from gateway.ledger.records import Refused


@verb("serve", "serve", "serve --config /etc/gateway.toml", json=False, load=load_config)
def serve(command: Command) -> int:
    # Here, as no other verb needs the web server.
    from gateway.server import run_server

    return run_server(command.config)


@verb(
    "init",
    "init",
    "init /etc/gateway/gateway.toml",
    arg("file", read.new_file, "the new file; must not exist (default: as --config)", nargs="?"),
    load=load_defaults,
)
def init(command: Command, file: Path | None) -> None:
    target = file or command.config.path
    shipped = Path(gateway.__file__).with_name("gateway.toml").read_bytes()
    write_new("init", target, shipped)
    command.show({"file": str(target)})
    is_default = target.absolute() == Path(DEFAULT_CONFIG).absolute()
    program = PROGRAM if is_default else f"{PROGRAM} --config {shlex.quote(str(target))}"
    command.say(
        f"{target} is written. Its providers are on as soon as the environment variables that it"
        f" names are set, such as OPENAI_API_KEY. Next:\n"
        f"  {program} check    # says what is set\n"
        f"  {program}          # serves; the first start shows what opens its accounts"
    )


ASK_SECONDS: Final = 5.0
"""Seconds for the answer of a gateway that is asked for its health: it takes milliseconds, so one that takes
longer hangs."""
_STATUS: Final = re.compile(r"HTTP/1\.[01] ([0-9]{3}) ")
_QUESTION: Final = b"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n"


@verb("health", "health", "health --json", load=load_server)
def health(command: Command) -> int:
    server = command.config.server
    if not server.port:
        raise Refused("A gateway at any free port cannot be asked. Set [server] port.")
    status, words = ask_readiness(list_reachable(server.host), server.port)
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
