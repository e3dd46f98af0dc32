"""Callers and providers at their worst, and what another account notices: its latency, the loop's turns.

The witness, in a process of its own, asks `GET /v1/key` all the time, by a connection that it keeps
and by new ones. The gateway runs under a probe that notes how late the loop ran what was due.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.api.scene import set_stage
from tests.api.slow import MIB, crowd
from tests.support.client import Cut, request
from tests.support.config import COMPLETES, DRAWS, EMBEDS, HEARS, RANKS, SPEAKS, Kind
from tests.support.embeddings import EMBEDDINGS, embeddings
from tests.support.process import CHAT
from tests.support.replies import (
    LAST_CHUNK,
    chunk,
    chunked,
    completion,
    json_reply,
    sse,
    sse_start,
    stream_head,
    text_chunks,
)
from tests.support.seed import NANO, Seed
from tests.support.stage import Stage
from tests.support.texts import COMPLETIONS, text_completion, text_events
from tests.support.upstream import End, Exchange, Script, Step
from tests.support.waiting import until

TURNS: Final = "turns"
"""The file beside its configuration to which the probed gateway writes its late turns."""
PROBE_SECONDS: Final = 0.002
NOTED_SECONDS: Final = 0.005
"""Turns that are no longer are not written: the machine does other things, too."""
PAUSE_SECONDS: Final = 0.005
"""Between two requests of the witness."""
CALM_SECONDS: Final = 3.0
ATTACK_SECONDS: Final = 5.0
LONGEST_SECONDS: Final = 60.0
PIECE_BYTES: Final = 2**18
P99_MS: Final = 50.0
TURN_MS: Final = 50.0
PATIENT: Final = "connect_timeout = 5\nfirst_byte_timeout = 60\nidle_timeout = 60"
KINDS: Final = {
    "chat": Kind(("alpha",), 2, PATIENT),
    "messages": Kind(("alpha",), 2, PATIENT, dialects=("messages",)),
    "embed": Kind(("alpha",), 1, PATIENT, makes=EMBEDS),
    "text": Kind(("alpha",), 1, PATIENT, model_options=COMPLETES),
    "image": Kind(("alpha",), 1, PATIENT, makes=DRAWS),
    "rerank": Kind(("alpha",), 1, PATIENT, makes=RANKS),
    "speech": Kind(("alpha",), 1, PATIENT, makes=SPEAKS),
    "hearing": Kind(("alpha",), 1, PATIENT, makes=HEARS),
}
SERVER: Final = "max_body_mb = 32\nmax_bodies_mb = 256\nstall_seconds = 10"
STRIPE_SECRET: Final = "whsec_hostile"
CARDS: Final = f"""
[billing.stripe]
secret_key = "sk_test_hostile"
webhook_secret = "{STRIPE_SECRET}"
base_url = "http://127.0.0.1:9"
minimum = 5
maximum = 1000
"""
SEEDS: Final = (Seed("rich", 10**6 * NANO), Seed("witness"))


@dataclass(frozen=True, slots=True)
class Figures:
    """The effect of one attack on another account."""

    attack: str
    seconds: float
    kept_ms: list[float]
    """The witness's latencies by the connection that it keeps, sorted; failures are infinite."""
    new_ms: list[float]
    """The same by new connections."""
    turn_ms: float
    """The longest turn of the loop."""
    turn_cpu_ms: float
    """The most time of the processor in one turn: what other programs take does not count."""
    lost: str
    """Refusals to others meanwhile, if the attack looked."""

    @property
    def ok(self) -> bool:
        is_quick = max(p99(self.kept_ms), p99(self.new_ms)) < P99_MS and self.turn_ms < TURN_MS
        return is_quick and not self.lost

    def __str__(self) -> str:
        kept, new = (
            f"p99 {p99(some):7.1f} ms, worst {some[-1]:7.1f} ({len(some)})"
            for some in (self.kept_ms, self.new_ms)
        )
        return (
            f"{self.attack:26} {self.seconds:5.1f} s   kept {kept}   new {new}"
            f"   longest turn {self.turn_ms:6.1f} ms, CPU {self.turn_cpu_ms:5.1f} ms   {'held' if self.ok else 'BROKEN'} {self.lost}"
        )


def p99(sorted_ms: list[float]) -> float:
    return sorted_ms[len(sorted_ms) * 99 // 100]


class Witness:
    """Another account: threads of a process of its own, which ask until stdin is closed."""

    def __init__(self, port: int, key: str) -> None:
        self._address = ("127.0.0.1", port)
        head = [("Authorization", f"Bearer {key}")]
        self._asked = request("GET", "/v1/key", head)
        self._asked_once = request("GET", "/v1/key", [*head, ("Connection", "close")])
        self._over = threading.Event()

    def run(self) -> dict[str, list[float]]:
        taken: dict[str, list[float]] = {"kept": [], "new": []}
        loops = [
            threading.Thread(target=self._ask, args=(kept, taken["kept" if kept else "new"]))
            for kept in (True, False)
        ]
        for one in loops:
            one.start()
        print("ready", flush=True)
        sys.stdin.read()
        self._over.set()
        for one in loops:
            one.join()
        return taken

    def _ask(self, kept: bool, taken: list[float]) -> None:
        connection: socket.socket | None = None
        while not self._over.is_set() or not taken:
            began = time.perf_counter()
            try:
                if connection is None:
                    connection = socket.create_connection(self._address, LONGEST_SECONDS)
                connection.sendall(self._asked if kept else self._asked_once)
                is_well = connection.recv(2**16).startswith(b"HTTP/1.1 200")
            except OSError:
                is_well = False
            taken.append((time.perf_counter() - began) * 1000 if is_well else float("inf"))
            if connection is not None and not (kept and is_well):
                connection.close()
                connection = None
            self._over.wait(PAUSE_SECONDS)


def run_probed_gateway(words: list[str]) -> int:
    """Run `--config PATH` as the gateway does, with a probe on its event loop."""
    from gateway.cli import main
    from gateway.server import serve

    make_loop = serve.find_loop_factory()
    path = Path(words[-1]).with_name(TURNS)
    file = path.open("a", encoding="ascii", buffering=1)

    def make_probed() -> asyncio.AbstractEventLoop:
        loop = make_loop()

        def probe(due: float, cpu_before: float) -> None:
            now, cpu = time.monotonic(), time.thread_time()
            if now - due > NOTED_SECONDS:
                file.write(f"{now} {now - due} {min(now - due, cpu - cpu_before)}\n")
            loop.call_later(PROBE_SECONDS, probe, now + PROBE_SECONDS, cpu)

        loop.call_soon(probe, time.monotonic(), time.thread_time())
        return loop

    setattr(serve, "find_loop_factory", lambda: make_probed)  # noqa: B010 - it is not exported
    return main(words)


Attack = Callable[[Stage], Awaitable[str | None]]
"""Returns what was refused to others, if it looked."""


async def measure(stage: Stage, name: str, attack: Attack) -> Figures:
    """Run one attack with the witness beside it."""
    witness = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.long.hostile", "witness"),
        *(str(stage.gateway.port), stage.callers["witness"].key),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert witness.stdout is not None
    await witness.stdout.readline()
    await asyncio.sleep(0.3)
    began, lost = time.monotonic(), None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LONGEST_SECONDS):
            lost = await attack(stage)
    seconds = time.monotonic() - began
    out, _ = await witness.communicate(b"")
    told = json.loads(out.splitlines()[-1])
    lines = (stage.gateway.folder / TURNS).read_text("ascii").splitlines()
    turns = [tuple(map(float, line.split())) for line in lines]
    wall_ms, cpu_ms = (
        1000 * max((turn[column] for turn in turns if turn[0] >= began), default=0.0)
        for column in (1, 2)
    )
    return Figures(
        name, seconds, sorted(told["kept"]), sorted(told["new"]), wall_ms, cpu_ms, lost or ""
    )


CHUNKED: Final = [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
CHUNKS: Final = request("POST", CHAT, CHUNKED) + b"1\r\na\r\n" * 200_000


async def send_chunks(count: int, stage: Stage) -> None:
    """Let so many strangers send chunks of one byte each."""
    loop = asyncio.get_running_loop()
    async with crowd(stage, b"", count) as strangers:
        sends = (loop.sock_sendall(one, CHUNKS) for one in strangers.open.values())
        await asyncio.gather(*sends, return_exceptions=True)
        await until(lambda: not strangers.count_open(), "all to be cut", seconds=LONGEST_SECONDS)


IMAGES: Final = "/v1/images/generations"
RERANK: Final = "/v1/rerank"
SPEECH: Final = "/v1/audio/speech"
TRANSCRIPTS: Final = "/v1/audio/transcriptions"
BOUNDARY: Final = "hostile"
WEBHOOK: Final = "/webhooks/stripe"
OK: Final = 200


async def leave(path: str, count: int, data: bytes, stage: Stage) -> None:
    """Ask for so many large replies and read nothing."""
    head = {"Content-Type": "application/json", "Authorization": f"Bearer {stage.key}"}
    async with crowd(stage, request("POST", path, head, data), count):
        await asyncio.sleep(ATTACK_SECONDS)


async def send(
    path: str, count: int, data: bytes, stage: Stage, kind: str = "application/json"
) -> None:
    """Let so many callers of a holder send a body again and again."""
    until = time.monotonic() + ATTACK_SECONDS

    async def go_on() -> None:
        while time.monotonic() < until:
            with contextlib.suppress(Cut):  # refused before its body was sent
                await stage.gateway.post(path, stage.key, data, headers={"Content-Type": kind})

    await asyncio.gather(*(go_on() for _ in range(count)))


REPEATED: Final = re.compile("«([^«»]*)»\\*([0-9]+) ?")


def read_attacks() -> Iterator[tuple[str, Attack]]:
    """Read the attacks whose bodies are text."""
    text = Path(__file__).with_name("hostile.txt").read_text(encoding="utf-8")
    for heading, body in re.findall(r"^== (.*)\n(.*)", text, re.MULTILINE):
        title, _, rest = heading.partition(": ")
        count, how, path = rest.split()
        yield title, partial(attack, {"send": send, "leave": leave}[how], path, int(count), body)


async def attack(
    act: Callable[[str, int, bytes, Stage], Awaitable[None]],
    path: str,
    count: int,
    body: str,
    stage: Stage,
) -> None:
    await act(path, count, expand(body).encode(), stage)


def expand(text: str) -> str:
    """Write out what is repeated, the innermost first."""
    while "«" in text:
        text = REPEATED.sub(lambda found: found[1] * int(found[2]), text)
    return text


def send_form(count: int, file: bytes, more: bytes = b"") -> Attack:
    recording = make_part('"file"; filename="a.mp3"', file)
    data = make_part('"model"', b"hearing/0") + more + recording + f"--{BOUNDARY}--\r\n".encode()
    kind = f"multipart/form-data; boundary={BOUNDARY}"
    return partial(send, TRANSCRIPTS, count, data, kind=kind)


def make_part(name: str, value: bytes) -> bytes:
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; name={name}\r\n\r\n"
    return head.encode() + value + b"\r\n"


async def leave_while(
    openings: bytes, count: int, ask: Callable[[Stage], Awaitable[int]], stage: Stage
) -> str | None:
    """Let so many connections begin a body and never end it; meanwhile somebody else asks.

    Returns how many of its requests had another status than 200.
    """
    statuses = []
    async with crowd(stage, openings.replace(b"KEY", stage.key.encode()), count):
        until = time.monotonic() + ATTACK_SECONDS
        while time.monotonic() < until:
            statuses.append(await ask(stage))
            await asyncio.sleep(PAUSE_SECONDS)
    lost = sum(one != OK for one in statuses)
    return f"{lost} of {len(statuses)} refused" if lost else None


async def ask_chat(stage: Stage) -> int:
    body = {"model": "chat/0", "messages": [{"role": "user", "content": "a"}]}
    return (await stage.chat(body, key=stage.callers["witness"].key)).status


async def tell_webhook(stage: Stage) -> int:
    """Send a signed message of a kind that changes nothing."""
    body, now = b'{"object":"event","type":"ping","data":{"object":{}}}', int(time.time())
    sign = hmac.digest(STRIPE_SECRET.encode(), b"%d." % now + body, "sha256").hex()
    async with stage.gateway.connect() as call:
        signed = {"Stripe-Signature": f"t={now},v1={sign}"}
        await call.send(request("POST", WEBHOOK, signed, body))
        return (await call.read_all()).status


UNFINISHED_FILE: Final = (
    request("POST", TRANSCRIPTS, {
        "Authorization": "Bearer KEY", "Content-Length": str(25 * MIB),
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
    })
    + make_part('"model"', b"hearing/0")
    + make_part('"file"; filename="a.mp3"', bytes(20 * MIB))
)  # fmt: skip
UNFINISHED_MESSAGE: Final = request("POST", WEBHOOK, {"Content-Length": "200000"}) + bytes(1000)
REFUSED_FILE: Final = request("POST", CHAT, {"Content-Length": str(40 * MIB)}) + bytes(16 * MIB)

ATTACKS: Final[dict[str, Attack]] = {
    "nothing": lambda _: asyncio.sleep(CALM_SECONDS),
    **{f"chunks x{count}": partial(send_chunks, count) for count in (1, 100, 890)},
    **dict(read_attacks()),
    "recordings": send_form(4, bytes(range(256)) * (24 * MIB // 256)),
    "lines in recordings": send_form(4, b"\r\n--hostil" * (24 * MIB // 10)),
    "parts": send_form(20, b"a", make_part('"a"', b"b") * 100_000),
    "heads of parts": send_form(5, b"a", make_part('"a"' + ";a=b" * 1900, b"b") * 250),
    "full heads": send_form(50, b"a", make_part('"a"' + f";b={'c' * 120}" * 7, b"") * 62),
    "fields": send_form(50, b"a", make_part('"a"', b"b") * 250),
    "some fields": send_form(50, b"a", make_part('"a"', b"b") * 62),
    "large fields": send_form(4, b"a", make_part('"a"', b'"' * (3 * MIB - 16))),
    "plain fields": send_form(4, b"a", make_part('"a"', b"a" * (3 * MIB - 16))),
    "segments": send_form(4, b"segments"),
    "events of transcripts": send_form(4, b"a", make_part('"stream"', b"true")),
    "unfinished files": partial(leave_while, UNFINISHED_FILE, 40, ask_chat),
    "unfinished messages": partial(leave_while, UNFINISHED_MESSAGE, 300, tell_webhook),
    "refused bodies": partial(leave_while, REFUSED_FILE, 50, ask_chat),
}
FLOODS: Final = {
    "comments": b":\n\n",
    "lines": b":\n",
    "empty": b"data:\n\n",
    "deltas": sse(chunk({"content": "a"})),
}


def answer(exchange: Exchange) -> Script:
    """Reply in pieces: asyncio would copy a large one in a turn of this loop, where the witness waits."""
    return [piece for step in choose(exchange) for piece in cut(step)]


def cut(step: Step) -> Script:
    if not isinstance(step, bytes):
        return [step]
    return [step[at : at + PIECE_BYTES] for at in range(0, len(step), PIECE_BYTES)]


def choose(exchange: Exchange) -> Script:
    if reply := REPLIES.get(exchange.target):
        return reply(exchange)
    body = exchange.json
    asked = body["messages"][-1]["content"]
    if body.get("stream"):
        start = sse_start(text_chunks(["Hello"], finish=None))
        return [*start, *flood(FLOODS[asked]), End.FIN]
    if asked == "large":
        return LARGE_CHAT
    return json_reply(completion('"' * 80_000 if asked == "quotes" else "Hello"))


TOKEN: Final = {"token": "a", "logprob": -1, "bytes": [97]}
LARGE_REPLY: Final = completion()
LARGE_REPLY["choices"][0]["logprobs"] = {
    "content": [{**TOKEN, "top_logprobs": [TOKEN] * 20}] * 3000
}
LARGE_CHAT: Final = json_reply(LARGE_REPLY)
VECTORS: Final = json_reply(embeddings([[0.5] * 3169] * 2048, packed=True))
RANK: Final = {"index": 0, "relevance_score": 0.5}
RANKING: Final = json_reply(
    {"model": "up", "results": [RANK] * 200_000, "meta": {"billed_units": {"search_units": 1}}}
)
IMAGE: Final = {"b64_json": "QUJD" * MIB}
IMAGES_REPLY: Final = json_reply({"created": 1, "model": "up", "data": [IMAGE] * 10})
IMAGE_EVENTS: Final[Script] = [
    stream_head(framing="close")
    + sse({"type": "image_generation.partial_image", **IMAGE}) * 9
    + sse({"type": "image_generation.completed", **IMAGE}),
    End.FIN,
]
SEGMENT: Final = {"start": 0, "text": "a", "tokens": [1, 2]}
SEGMENTS: Final = json_reply({"text": "a", "duration": 9, "segments": [SEGMENT] * 100_000})
SOUND: Final = [
    stream_head().replace(b"text/event-stream; charset=utf-8", b"audio/mpeg"),
    *[chunked(b"\xff\xf3" * 100) * 300] * 100,
    LAST_CHUNK,
]


SPOKEN: Final[Script] = [
    stream_head(framing="close") + sse({"type": "transcript.text.delta", "delta": "a"}) * 300_000,
    sse({"type": "transcript.text.done", "text": "a"}),
    End.FIN,
]


def flood(event: bytes) -> list[bytes]:
    """Make 6 MB of an event."""
    return [chunked(event * (60_000 // len(event)))] * 100


REPLIES: Final[dict[str, Callable[[Exchange], Script]]] = {
    EMBEDDINGS: lambda _: VECTORS,
    COMPLETIONS: lambda asked: (
        [*sse_start([]), *flood(sse(text_events("a")[0])), End.FIN]
        if asked.json.get("stream")
        else json_reply(text_completion("Hello"))
    ),
    IMAGES: lambda asked: IMAGE_EVENTS if asked.json.get("stream") else IMAGES_REPLY,
    RERANK: lambda asked: (
        RANKING if asked.json["query"] == "ranks" else json_reply({"results": [RANK]})
    ),
    SPEECH: lambda _: SOUND,
    TRANSCRIPTS: lambda asked: (
        SPOKEN
        if b'"stream"' in asked.body
        else SEGMENTS
        if b"\r\nsegments\r\n" in asked.body
        else json_reply({"text": "a"})
    ),
}


async def play(names: list[str] | None = None) -> list[Figures]:
    """Play each attack against a gateway of its own."""
    figures = []
    for name, attack in ATTACKS.items():
        if names and name not in names:
            continue
        async with set_stage(
            kinds=KINDS, server=SERVER + CARDS, seeds=SEEDS, module="tests.long.hostile"
        ) as stage:
            stage.alpha.always(answer)
            figures.append(await measure(stage, name, attack))
        print(figures[-1], flush=True)
    return figures


if __name__ == "__main__":
    if sys.argv[1] == "witness":
        print(json.dumps(Witness(int(sys.argv[2]), sys.argv[3]).run()))
    elif sys.argv[1] == "play":
        asyncio.run(play(sys.argv[2:]))
    else:
        raise SystemExit(run_probed_gateway(sys.argv[1:]))
