"""A receiver of webhooks on loopback that follows a script, and checks signatures as the document says."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

SECRET: Final = "whsec-of-the-operator"
HANG: Final = 0
"""A status of the script: no answer until the end."""


@dataclass
class Receiver:
    """Notes what arrives, and answers with the next status of the script, or else 200."""

    script: deque[int] = field(default_factory=deque)
    bodies: list[Any] = field(default_factory=list)
    signatures: list[tuple[str, bytes]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?team=a"

    def kinds(self) -> list[str]:
        return [body["kind"] for body in self.bodies]

    def find(self, kind: str) -> list[Any]:
        return [body for body in self.bodies if body["kind"] == kind]


def verify(secret: str, header: str, body: bytes) -> bool:
    time, _, given = header.partition(",v1=")
    signed = time.removeprefix("t=").encode() + b"." + body
    wanted = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return hmac.compare_digest(given, wanted)


@contextmanager
def listen(*script: int) -> Iterator[Receiver]:
    receiver = Receiver(deque(script))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["content-length"]))
            status = receiver.script.popleft() if receiver.script else 200
            receiver.signatures.append((self.headers["x-gateway-signature"], sent))
            receiver.bodies.append(json.loads(sent))
            if status == HANG:
                receiver.over.wait()
                return
            self.send_response(status)
            if status == 302:
                self.send_header("Location", receiver.url)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        receiver.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.over.set()
            server.shutdown()
            thread.join()
