"""`check --live`: what the providers answer stands beside the summary."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

from tests.support.cli import Cli
from tests.support.process import free_port

LIVE = """
[providers.demo]
dialect = "demo"
[providers.good]
dialect = "chat"
base_url = "http://127.0.0.1:{good}/v1"
api_key = "sk-canary-0123456789-tail"
[providers.bad]
dialect = "chat"
base_url = "http://127.0.0.1:{bad}/v1"
[providers.unset]
dialect = "chat"
base_url = "http://127.0.0.1:{bad}/v1"
api_key = "env:NO_SUCH_KEY"
[models.small]
routes = ["good/small", "bad/small"]
price = "free"
[models.odd]
routes = ["good/odd"]
price = "free"
"""


@contextmanager
def serve_list(folder: Path) -> Iterator[int]:
    """Serve the file of a folder that has the path of the list."""
    (folder / "v1").mkdir()
    (folder / "v1/models").write_text('{"data": [{"id": "small"}]}', encoding="utf-8")
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_providers_are_asked_only_when_told(cli: Cli, tmp_path: Path) -> None:
    with serve_list(tmp_path) as port:
        cli.config.write_text(LIVE.format(good=port, bad=free_port()), encoding="utf-8")
        assert "live" not in cli.done("check", "--json").json
        answer = cli.run("check", "--live")
        live = cli.run("check", "--live", "--json").json["live"]
    assert answer.code == 1
    assert "reachable, 1 model; not among them: odd" in answer.out
    assert "cannot be reached: Connection refused" in answer.out
    assert "Not usable as they are set: bad." in answer.err
    assert "canary" not in answer.out + answer.err
    assert [(one["provider"], one["verdict"], one["usable"]) for one in live] == [
        ("good", "unknown_models", True),
        ("bad", "failed", False),
    ]
    assert live[0]["unknown"] == ["odd"]
