"""Memory is given back: by requests when they end, by the process while nothing is in flight."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from gateway.ledger.opening import open_books
from gateway.server import memory
from tests import ROOT
from tests.api.language import SURFACES, Command, read_command, read_script
from tests.api.scene import ASKS, PATHS
from tests.support.chat import say
from tests.support.client import request
from tests.support.config import BRISK, EMBEDS, PATIENT, Kind, Places, write_config
from tests.support.content import Content
from tests.support.extras import find_modules
from tests.support.pairs import CHAT_PROVIDER, MESSAGES_PROVIDER, RESPONSES_PROVIDER
from tests.support.process import CHAT, GatewayProcess, accepts, free_port
from tests.support.replies import (
    LAST_CHUNK,
    chunked,
    completion,
    json_reply,
    sse_reply,
    sse_start,
    stream_chunks,
    text_chunks,
)
from tests.support.seed import Seed, seed
from tests.support.upstream import Drip, Exchange, Script, ScriptedUpstream
from tests.support.waiting import until

PLAYS: Final = (
    Path(__file__).with_name("uncollected.txt"),
    *sorted(ROOT.glob("tests/extras/*/uncollected.txt")),
)
PROVIDERS: Final = (CHAT_PROVIDER, MESSAGES_PROVIDER, RESPONSES_PROVIDER)


async def test_garbage_is_collected_while_idle_or_after_a_long_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A collection stops everybody for as long as there are objects of requests to look at.

    The heap is given back behind each.
    """
    monkeypatch.setattr(memory, "COLLECT_SECONDS", 0)
    trims: list[int] = []
    monkeypatch.setattr(memory, "find_trim", lambda: lambda: trims.append(len(seen)))
    looks = iter([False] * (memory.MAX_LOOKS + 1) + [True])
    collected: list[int] = []
    seen: list[bool] = []

    def look() -> bool:
        seen.append(next(looks))
        return seen[-1]

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            collected.append(len(seen))

    gc.callbacks.append(note)
    try:
        with pytest.raises(RuntimeError):  # the looks are used up
            await memory.collect(look)
    finally:
        gc.callbacks.remove(note)
    assert {memory.MAX_LOOKS, memory.MAX_LOOKS + 2} <= {*collected}
    assert min(collected) == memory.MAX_LOOKS
    assert trims == [memory.MAX_LOOKS, memory.MAX_LOOKS + 2]


def test_certificates_are_skipped_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A context that is made later has them again."""
    monkeypatch.setenv("SSL_CERT_FILE", "/of/the/operator")
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    with memory.skip_certificates():
        assert ssl.create_default_context().get_ca_certs() == []
        assert os.environ["SSL_CERT_FILE"] == os.devnull
    assert os.environ["SSL_CERT_FILE"] == "/of/the/operator"
    assert "SSL_CERT_DIR" not in os.environ


USE_LARGE_BLOCKS: Final = """
import resource, sys, threading
from gateway.server.memory import reuse_large_blocks
def count_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def use():
    return b"a" * (100 << 20)
if sys.argv[1] == "reuse":
    reuse_large_blocks()
def run():
    use()
    before = count_faults()
    for _ in range(4):
        use()
    print(count_faults() - before)
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc")
def test_the_memory_of_large_bodies_is_not_mapped_anew_each_time() -> None:
    """A page costs as much as reading what is in it; the count does not depend on other load."""

    def count(how: str) -> int:
        command = [sys.executable, "-c", USE_LARGE_BLOCKS, how]
        return int(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)

    assert count("reuse") < 1000 < count("map")


def test_any_c_library_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    memory.find_trim()()
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    memory.find_trim()()
    memory.reuse_large_blocks()


KINDS: Final = {
    "plain": Kind(("alpha",), 1),
    "messages": Kind(("alpha",), 1, dialects=("messages",)),
    "responses": Kind(("alpha",), 1, dialects=("responses",)),
    "pair": Kind(("refused", "alpha"), 1),
    "abort": Kind(("alpha",), 1, PATIENT + '\non_disconnect = "abort"'),
    "brisk": Kind(("alpha",), 20, BRISK),
    "refused": Kind(("refused",), 1),
    "embed": Kind(("alpha",), 1, makes=EMBEDS),
    "demo": Kind(("demo",), 1, "", ("demo",)),
    "embed-demo": Kind(("demo",), 1, "", ("demo",), makes=EMBEDS),
}
SEEDS: Final = (Seed("rich"), Seed("empty", 0), Seed("revoked", revoked=True))
TOLD: Final = Content(text="Hello, world!", thinking="Well.")
BEGUN: Final = sse_start(text_chunks(["Hello", " world"], finish=None))
LONG: Final = "x" * (4 << 20)
"""More than a connection whose caller reads nothing takes."""
PAUSE: Final = Drip([b""] * 3, 0.1)
"""Long enough for the gateway to notice that a caller left."""
REST: Final = stream_chunks([" and", " so on"])
OF_TRANSPORTS: Final = frozenset(
    {
        "asyncio.selector_events._SelectorSocketTransport",
        "asyncio.trsock.TransportSocket",
        "socket.socket",
        "collections.deque",
        *(f"builtins.{kind}" for kind in ("dict", "method", "tuple", "list")),
    }
)
"""Each of asyncio's own transports is in a cycle with a method of its own. Nothing else is in it: its
protocol and its buffer are dropped when the connection is lost."""
ALLOWED: Final[frozenset[str]] = frozenset() if find_spec("uvloop") else OF_TRANSPORTS
UNLOGGED: Final = "200 @nobody GET /console/"
Play = tuple[str, Script | Callable[[Exchange], Script], bytes, int | None]
"""Name, what the provider plays, what the caller sends, and the status; None: the caller leaves."""


def post(path: str, body: object, key: str, **headers: str) -> bytes:
    headers = {"Content-Type": "application/json", "x-api-key": key, **headers}
    return request("POST", path, headers, json.dumps(body).encode())


def list_written(keys: Mapping[str, str]) -> Iterator[Play]:
    """List the requests in `uncollected.txt`, also those of extras, sent with these keys."""
    for line in "".join(one.read_text(encoding="utf-8") for one in PLAYS).splitlines():
        if line and not line.startswith("#"):
            asked, _, said = line.partition(" < ")
            status, _, asked = asked.partition(" ")
            sent = write(read_command(asked), keys)
            yield line, read_script(said) if said else (), sent, int(status)


def write(command: Command, keys: Mapping[str, str]) -> bytes:
    headers = {"Content-Type": "application/json", "x-api-key": keys[command.account]}
    if command.account == "operator":
        headers["Authorization"] = f"Bearer {headers.pop('x-api-key')}"
    headers |= dict(command.headers)
    method, target, body = "POST", command.words[-1], command.body
    if command.words[0] in SURFACES:
        target, ask = SURFACES[command.words[0]]
        body = ask(command.words[1], **(body or {}))
    else:
        method = command.words[0]
    if isinstance(body, str):
        count, _, filled = body.partition(" ")
        data = b" " * int(count) if filled == "spaces" else body.encode()
    else:
        data = json.dumps(body).encode()
    return request(method, target, headers, None if body is None else data)


def list_pairs(key: str) -> Iterator[Play]:
    """List completions of all pairs, whole and as streams."""
    for caller, provider in product(PATHS, PROVIDERS):
        pair, model = f"{caller} over {provider.kind}", f"{provider.kind}/0"
        yield pair, provider.reply(TOLD), post(PATHS[caller], ASKS[caller](model), key), 200
        sent = post(PATHS[caller], ASKS[caller](model, stream=True), key)
        yield f"{pair}, a stream", provider.stream(TOLD), sent, 200
        yield f"{pair}, JSON for a stream", provider.reply(TOLD), sent, 200
        broken = [provider.stream(TOLD)[0], chunked(provider.events(TOLD)[0])]
        error = [*broken, chunked(provider.error_event("no")), LAST_CHUNK]
        yield f"{pair}, an error in a stream", error, sent, 200


def list_large(key: str) -> Iterator[Play]:
    """List a large reply, and callers that leave."""
    large = post(CHAT, say("plain/0", LONG[: 1 << 19]), key)
    yield "large", json_reply(completion(LONG)), large, 200
    yield "left with its body", (), post(CHAT, 1, key, **{"Content-Length": "99"}), None
    for kind in ("plain", "abort"):
        ask, stream = (post(CHAT, say(f"{kind}/0", stream=one), key) for one in (False, True))
        yield f"left before a reply, {kind}", (PAUSE, *json_reply(completion())), ask, None
        yield f"left before a stream, {kind}", (PAUSE, *sse_reply(REST)), stream, None
        yield f"left during a reply, {kind}", json_reply(completion(LONG * 4)), ask, None
        yield f"left during a stream, {kind}", (*BEGUN, PAUSE, *sse_reply(REST)[1:]), stream, None
        filled = sse_reply(text_chunks([LONG[: 1 << 16]] * 200))
        yield f"left behind a stream, {kind}", filled, stream, None


async def play(gateway: GatewayProcess, alpha: ScriptedUpstream, one: Play) -> None:
    name, script, sent, status = one
    seen = len(alpha.exchanges)
    alpha.always(script)
    async with gateway.connect() as call:
        await call.send(sent)
        if status is not None:
            assert (await call.read_all()).status == status, name
            return
        if script:
            await alpha.wait_for(seen + 1)
            if callable(script) or script[0] is not PAUSE:
                await call.read_head()
        call.reset()


@contextlib.contextmanager
def open_uncollected(
    folder: Path, places: Places
) -> Iterator[tuple[GatewayProcess, Callable[[], dict[str, int]]]]:
    """Start a gateway; the function counts by type what became garbage since its last call."""
    gateway = GatewayProcess(folder, free_port())
    gateway.config.write_text(write_config(places, port=gateway.port, kinds=KINDS))
    words = ["-m", "tests.server.uncollected", "--config", str(gateway.config)]
    with gateway.log_path.open("wb") as log:
        gateway.process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=ROOT,
            env=gateway.environment,
        )
    asked, told = gateway.process.stdin, gateway.process.stdout
    assert asked is not None
    assert told is not None

    def find_garbage() -> dict[str, int]:
        asked.write(b"\n")
        asked.flush()
        found: dict[str, int] = json.loads(told.readline())
        return found

    with asked, told:
        try:
            yield gateway, find_garbage
            gateway.stop()
        finally:
            gateway.kill()


@pytest.mark.slow
async def test_a_request_leaves_nothing_to_the_collector(
    tmp_path: Path, places: Places, alpha: ScriptedUpstream
) -> None:
    """However it ends, its objects are freed by then: none is in a cycle, which would keep its bytes."""
    keys = {name: one.key for name, one in seed(tmp_path / "gateway.db", SEEDS).items()}
    with open_books(tmp_path / "gateway.db") as books:
        for module in find_modules("senders").values():
            keys |= module.make_keys(books)
    with open_uncollected(tmp_path, places) as (gateway, find_garbage):
        await until(lambda: accepts(gateway.port), "the gateway to start")
        key = keys["rich"]
        plays = [*list_pairs(key), *list_large(key), *list_written(keys | {"nobody": ""})]
        for number in (1, 2):
            for one in plays:
                await play(gateway, alpha, one)
            lines = number * sum(one[0] != UNLOGGED for one in plays)
            await until(lambda: gateway.log.count(" status=") >= lines, "all requests to end")  # noqa: B023
            garbage = find_garbage()
            left = {*garbage} - ALLOWED
            assert number == 1 or not left, left  # the first requests make what is kept
