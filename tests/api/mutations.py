"""Seeded mutations of valid requests.

Seed and number name an input: `mutate(seed, number, key)` makes the same bytes again.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable
from typing import Any, Final

from tests.api.scene import ASKS, PATHS
from tests.support.client import request
from tests.support.embeddings import EMBEDDINGS, embed
from tests.support.messages import ask
from tests.support.process import MESSAGES

TEXT: Final = "Grüße, schreib ein Gedicht über Äpfel."
JSON_TYPE: Final = ("Content-Type", "application/json")
Mutation = Callable[[random.Random, bytes], bytes]


# Valid requests


def make_valid(dice: random.Random, key: str) -> bytes:
    """Make one or two requests, of every kind that is served."""
    requests = [dice.choice(VALID)(dice, key) for _ in range(dice.choice((1, 1, 1, 2)))]
    return b"".join(requests)


def _make_body(dice: random.Random, caller: str) -> dict[str, Any]:
    model = f"{dice.choice(('chat', 'messages'))}/{dice.randrange(2)}"
    extra: dict[str, Any] = {"stream": dice.random() < 0.5, "temperature": 0.5}
    if caller != "responses":
        extra["max_tokens"] = 9
    if caller == "chat":
        extra |= {"stop": ["a", "b"], "n": 1, "user": "someone", "stream_options": None}
    elif caller == "responses":
        tool = {"type": "function", "name": "f", "parameters": {}, "strict": False}
        extra |= {"instructions": "Be kind.", "tools": [tool, {"type": "web_search"}]}
    else:
        extra |= {"system": [{"type": "text", "text": "Be kind."}], "top_p": 0.5, "top_k": 3}
    return ASKS[caller](model, TEXT, **extra)


def _auth(dice: random.Random, key: str) -> tuple[str, str]:
    pairs = (("Authorization", f"Bearer {key}"), ("x-api-key", key))
    return dice.choice(pairs)


def _completion(dice: random.Random, key: str) -> bytes:
    caller = dice.choice(tuple(PATHS))
    body = _make_body(dice, caller)
    data = json.dumps(body, ensure_ascii=dice.random() < 0.5).encode()
    if dice.random() < 0.4:
        data = json.dumps(play_json_games(dice, body)).encode("utf-8", "surrogatepass")
    headers = [JSON_TYPE, _auth(dice, key)]
    if dice.random() < 0.2:
        headers.append(("Expect", "100-continue"))
    if dice.random() < 0.3:
        headers.append(("Transfer-Encoding", "chunked"))
        return request("POST", PATHS[caller], headers, _cut_into_chunks(dice, data))
    return request("POST", PATHS[caller], headers, data)


def _cut_into_chunks(dice: random.Random, data: bytes) -> bytes:
    out = b""
    while data:
        size = dice.randint(1, len(data))
        out += b"%x\r\n%b\r\n" % (size, data[:size])
        data = data[size:]
    return out + b"0\r\n\r\n"


def _count(dice: random.Random, key: str) -> bytes:
    data = json.dumps(ask("messages/0", TEXT)).encode()
    return request("POST", f"{MESSAGES}/count_tokens", [JSON_TYPE, _auth(dice, key)], data)


def _embed(dice: random.Random, key: str) -> bytes:
    value = dice.choice((TEXT, [TEXT, TEXT], [1, 2], [[1], [2]]))
    data = json.dumps(embed("embed/0", value, dimensions=3, encoding_format="base64")).encode()
    return request("POST", EMBEDDINGS, [JSON_TYPE, _auth(dice, key)], data)


def _get(dice: random.Random, key: str) -> bytes:
    paths = ("/v1/models", "/v1/models/chat/0", "/v1/models/none", "/healthz", "/readyz", "/v1/key")
    headers = [_auth(dice, key), ("anthropic-version", "2023-06-01")]
    return request("GET", dice.choice(paths), headers[: dice.randint(1, 2)])


VALID: Final = (_completion, _completion, _completion, _completion, _count, _embed, _get)


# Mutations


def flip_bytes(dice: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 5, 20))):
        out[dice.randrange(len(out))] = dice.randrange(256)
    return bytes(out)


def flip_bits(dice: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(dice.choice((1, 3, 9))):
        out[dice.randrange(len(out))] ^= 1 << dice.randrange(8)
    return bytes(out)


def truncate(dice: random.Random, data: bytes) -> bytes:
    return data[: dice.randrange(1, len(data) + 1)]


def behead(dice: random.Random, data: bytes) -> bytes:
    return data[dice.randrange(len(data)) :]


def duplicate(dice: random.Random, data: bytes) -> bytes:
    start = dice.randrange(len(data))
    end = dice.randrange(start, len(data)) + 1
    return data[:end] + data[start:end] * dice.choice((1, 1, 2, 50)) + data[end:]


def drop(dice: random.Random, data: bytes) -> bytes:
    start = dice.randrange(len(data))
    return data[:start] + data[start + dice.choice((1, 2, 10, 100)) :]


def insert(dice: random.Random, data: bytes) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + dice.choice(NASTY) + data[at:]


def swap_line_ends(dice: random.Random, data: bytes) -> bytes:
    return data.replace(
        b"\r\n", dice.choice((b"\n", b"\r", b"\r\r\n", b"\n\r")), dice.randint(1, 4)
    )


def add_header(dice: random.Random, data: bytes) -> bytes:
    first, _, rest = data.partition(b"\r\n")
    lines = [dice.choice(HEADERS) for _ in range(dice.choice((1, 1, 2, 3)))]
    return first + b"\r\n" + b"\r\n".join(lines) + b"\r\n" + rest


def move_header(dice: random.Random, data: bytes) -> bytes:
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    dice.shuffle(lines)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def change_length(dice: random.Random, data: bytes) -> bytes:
    lengths = (
        b"0",
        b"1",
        b"-1",
        b"+5",
        b"1_0",
        b"9" * 20,
        b"1000",
        b"99999999",
        b"0x10",
        b"",
        b"5 5",
    )
    return re.sub(rb"(?i)(content-length: )\d+", rb"\g<1>" + dice.choice(lengths), data, count=1)


def change_target(dice: random.Random, data: bytes) -> bytes:
    method, _, rest = data.partition(b" ")
    target, _, rest = rest.partition(b" ")
    return b" ".join([method, dice.choice(TARGETS).replace(b"PATH", target), rest])


def change_method(dice: random.Random, data: bytes) -> bytes:
    methods = (b"get", b"PUT", b"HEAD", b"OPTIONS", b"CONNECT", b"TRACE", b"P@ST", b"", b"PRI")
    return dice.choice(methods) + b" " + data.partition(b" ")[2]


NASTY: Final = (
    b"\x00", b"\r\n", b"\n", b"\r\n\r\n", b"\xff\xfe", b"\xed\xa0\x80", b"\\ud800", b'"', b"{", b"[",
    b"[" * 5000, b"%s%n", b"0\r\n\r\n", b"\x16\x03\x01", b"1e999", b"NaN", b"\xef\xbb\xbf", b":", b" ",
    b"A" * 9000, b"GET / HTTP/1.1\r\n\r\n",
)  # fmt: skip
HEADERS: Final = (
    b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: identity", b"Content-Encoding: gzip", b"Content-Type: text/plain",
    b"Content-Type: application/json; charset=utf-16", b"Host: x/#", b"Host: [::1", b"Host:",
    b"Connection: close", b"Connection: upgrade\r\nUpgrade: websocket", b"Upgrade: h2c",
    b"Expect: 100-continue", b"Expect: junk", b"Authorization: Bearer \xff\xfe", b"x-api-key: nobody",
    b"Authorization: Basic Og==", b"Cookie: a=b", b"X-A : b", b"X-A: b\r\n c", b": empty", b"no colon",
    b"X-Long: " + b"a" * 9000, b"\r\n".join(b"X-%d: a" % n for n in range(200)), b"X-N: a\x00b",
    b"X-U: \xc3\xa4", b"anthropic-version: \xff", b"anthropic-beta: a,b", b"Accept-Encoding: gzip, br",
    b"Range: bytes=0-1", b"If-None-Match: *", b"X-Forwarded-For: ::1, \xff", b"Keep-Alive: timeout=1",
)  # fmt: skip
TARGETS: Final = (
    b"*", b"/", b"//PATH", b"PATH/", b"PATH?a=b", b"PATH#x", b"PATH;a=b", b"http://x:y:zPATH",
    b"http://[::1PATH", b"http://otherPATH", b"/%zz", b"/%00", b"/v1/../PATH", b"/v1/models/%ff%fe",
    b"/v1/models/" + b"a" * 5000, b"", b"PATH\x00", b"\xff", b"PATH?" + b"q=%FF&" * 500, b"?", b"/v1/models/..",
    b"/v1/models/%2e%2e/%2f", b"/v1/receipts/req_1", b"/v1/receipts/%00", b"/v1/receipts/" + b"z" * 3000,
)  # fmt: skip
MUTATIONS: Final[tuple[Mutation, ...]] = (
    flip_bytes, flip_bits, truncate, behead, duplicate, drop, insert, swap_line_ends,
    add_header, add_header, move_header, change_length, change_target, change_method,
)  # fmt: skip
VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 0.5, -0.0, 1e308, 2**53, 2**63, 2**64, -(2**63) - 1, "", "x", "\x00",
    "\ud800", "🎉" * 10, "a" * 5000, [], {}, [[]], [None], {"": None}, {"type": "text"}, "null", "1",
    [{"type": "text", "text": 7}], [{"role": "user"}], {"role": "user", "content": "hi"},
    [{"type": "tool_use", "id": "a", "name": "b", "input": 7}], {"type": "tool", "name": 7},
    [{"type": "image_url", "image_url": 7}], [{"type": "image", "source": {"type": "url"}}],
    {"include_usage": "yes"}, [{"type": "function", "function": {"name": None, "parameters": 1}}],
    [{"role": "tool", "tool_call_id": None, "content": [7]}], "auto", "none", {"type": "json_schema"},
    [{"role": "assistant", "content": None, "tool_calls": [{"function": {"arguments": "{"}}]}],
)  # fmt: skip
FIELDS: Final = (
    "model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n", "stop",
    "temperature", "top_p", "top_k", "tools", "tool_choice", "functions", "function_call", "system",
    "response_format", "thinking", "reasoning_effort", "metadata", "user", "logprobs", "logit_bias",
    "stop_sequences", "parallel_tool_calls", "prediction", "modalities", "audio", "seed", "output_config",
)  # fmt: skip


def play_json_games(dice: random.Random, body: dict[str, Any]) -> dict[str, Any]:
    """Set, drop or nest something somewhere in the JSON."""
    out: dict[str, Any] = json.loads(json.dumps(body))
    for _ in range(dice.choice((1, 1, 2, 4))):
        place: Any = out
        while dice.random() < 0.5:
            inner = [one for one in _children(place) if isinstance(one, dict | list) and one]
            if not inner:
                break
            place = dice.choice(inner)
        _spoil(dice, place)
    return out


def _children(place: Any) -> list[Any]:
    return list(place.values()) if isinstance(place, dict) else list(place)


def _spoil(dice: random.Random, place: Any) -> None:
    value = copy.deepcopy(dice.choice(VALUES))
    if isinstance(place, list):
        place[dice.randrange(len(place))] = value
    elif dice.random() < 0.5 and place:
        name = dice.choice(list(place))
        if dice.random() < 0.3:
            del place[name]
        else:
            place[name] = value
    else:
        place[dice.choice(FIELDS)] = value


def mutate(seed: int, number: int, key: str) -> bytes:
    """Make the input of that number: a valid request, spoiled in up to three ways."""
    dice = random.Random(f"{seed}/{number}")
    data = make_valid(dice, key)
    for _ in range(dice.choice((0, 0, 1, 1, 1, 2, 3))):
        data = dice.choice(MUTATIONS)(dice, data) or b"\r\n"
    return data
