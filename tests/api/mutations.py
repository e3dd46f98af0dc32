"""Seeded mutations of valid requests.

Seed and number name an input: `mutate(seed, number, key)` makes the same bytes again.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
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

NASTY: Final = Path(__file__).with_name("nasty.txt")
"""Values by what is done with them: JSON, and texts times a number."""


def _read_value(line: str) -> Any:
    """Read JSON, or a sum of texts, each of which may be repeated."""
    if " * " not in line:
        return json.loads(line)
    parts = (one.partition(" * ") for one in line.split(" + "))
    return "".join(json.loads(text) * int(count or 1) for text, _, count in parts)


WORDS: Final[dict[str, list[Any]]] = {
    title: [_read_value(one) for line in lines if line for one in line.split(" | ")]
    for title, *lines in (
        one.split("\n") for one in NASTY.read_text(encoding="utf-8").split("== ")[1:]
    )
}


def _pick(dice: random.Random, title: str) -> bytes:
    text: str = dice.choice(WORDS[title])
    return text.encode("latin-1")


def flip(dice: random.Random, data: bytes) -> bytes:
    """Change some bytes, or a bit of each."""
    out, is_bit = bytearray(data), dice.random() < 0.5
    for _ in range(dice.choice((1, 1, 2, 3, 9, 20))):
        at = dice.randrange(len(out))
        out[at] = out[at] ^ 1 << dice.randrange(8) if is_bit else dice.randrange(256)
    return bytes(out)


def truncate(dice: random.Random, data: bytes) -> bytes:
    return data[: dice.randrange(1, len(data) + 1)]


def behead(dice: random.Random, data: bytes) -> bytes:
    return data[dice.randrange(len(data)) :]


def repeat(dice: random.Random, data: bytes) -> bytes:
    """Repeat a part, or leave out a short one."""
    start = dice.randrange(len(data))
    if dice.random() < 0.5:
        return data[:start] + data[start + dice.choice((1, 2, 10, 100)) :]
    end = dice.randrange(start, len(data)) + 1
    return data[:end] + data[start:end] * dice.choice((1, 1, 2, 50)) + data[end:]


def insert(dice: random.Random, data: bytes) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + _pick(dice, "what is put somewhere into the bytes") + data[at:]


def swap_line_ends(dice: random.Random, data: bytes) -> bytes:
    return data.replace(b"\r\n", _pick(dice, "line ends"), dice.randint(1, 4))


def add_header(dice: random.Random, data: bytes) -> bytes:
    first, _, rest = data.partition(b"\r\n")
    lines = [_pick(dice, "headers that are added") for _ in range(dice.choice((1, 1, 2, 3)))]
    return first + b"\r\n" + b"\r\n".join(lines) + b"\r\n" + rest


def move_header(dice: random.Random, data: bytes) -> bytes:
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    dice.shuffle(lines)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def change_length(dice: random.Random, data: bytes) -> bytes:
    length = _pick(dice, "lengths that are declared")
    return re.sub(rb"(?i)(content-length: )\d+", rb"\g<1>" + length, data, count=1)


def change_target(dice: random.Random, data: bytes) -> bytes:
    method, _, rest = data.partition(b" ")
    target, _, rest = rest.partition(b" ")
    chosen = _pick(dice, "targets in the place of PATH").replace(b"PATH", target)
    return b" ".join([method, chosen, rest])


def change_method(dice: random.Random, data: bytes) -> bytes:
    return _pick(dice, "methods") + b" " + data.partition(b" ")[2]


MUTATIONS: Final[tuple[Mutation, ...]] = (
    flip, flip, truncate, behead, repeat, repeat, insert, swap_line_ends,
    add_header, add_header, move_header, change_length, change_target, change_method,
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
    value = copy.deepcopy(dice.choice(WORDS["values of fields"]))
    if isinstance(place, list):
        place[dice.randrange(len(place))] = value
    elif dice.random() < 0.5 and place:
        name = dice.choice(list(place))
        if dice.random() < 0.3:
            del place[name]
        else:
            place[name] = value
    else:
        place[dice.choice(WORDS["fields that are set"])] = value


def mutate(seed: int, number: int, key: str) -> bytes:
    """Make the input of that number: a valid request, spoiled in up to three ways."""
    dice = random.Random(f"{seed}/{number}")
    data = make_valid(dice, key)
    for _ in range(dice.choice((0, 0, 1, 1, 1, 2, 3))):
        data = dice.choice(MUTATIONS)(dice, data) or b"\r\n"
    return data
