"""`health`: what the gateway says of itself, as exit codes."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from gateway.base.process import ExitCode
from tests.support.cli import Cli

ANSWERS: Final = {
    b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nready\n": (ExitCode.OK, "ready\n", ""),
    b"HTTP/1.1 503 Busy\r\n\r\ndraining\n": (ExitCode.FAILED, "", "Not ready: draining.\n"),
    b"SSH-2.0-x\r\n": (ExitCode.FAILED, "", "Not ready: what answers at HERE is no gateway.\n"),
}


def test_health_is_what_the_gateway_says_of_itself(cli: Cli) -> None:
    """As exit codes that Docker knows: 0 and 1."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = f"127.0.0.1:{server.getsockname()[1]}"
        cli.config.write_text(f'[server]\nhost = "*"\nport = {here.partition(":")[2]}\n[models.x')
        for answer, (code, out, err) in ANSWERS.items():
            with ThreadPoolExecutor(1) as pool:
                asked = pool.submit(answer_once, server, answer)
                ran = cli.run("health")
                assert asked.result().startswith(b"GET /readyz HTTP/1.0\r\n")
            assert (ran.code, ran.out, ran.err.replace(here, "HERE")) == (code, out, err)
    assert cli.run("health", "--json").json["ready"] is False
    assert f"nothing answers at {here} (" in cli.run("health").err
    cli.config.write_text("[server]\nport = 0\n")
    assert "Set [server] port" in cli.run("health").err


def answer_once(server: socket.socket, answer: bytes) -> bytes:
    with server.accept()[0] as caller:
        heard = caller.recv(1 << 16)
        caller.sendall(answer)
        return heard
