"""Streams whose texts are read by a template say and cost the same as without one, whoever calls."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any, Final

import pytest

from gateway.dialects.translate import first_choice
from tests.dialects.chat.kit import DONE, Played, make_context, make_dice, play, random_slices
from tests.support.formats import EXCHANGES
from tests.support.fuzz import ALL_EXAMPLES
from tests.support.rows import each_row

MAX_FRUITLESS: Final = 8

PAIRS: Final = [
    (caller, upstream)
    for upstream in ("chat", "messages")
    for caller in EXCHANGES
    if upstream in EXCHANGES[caller]
]
TIMES: Final = 1000 if ALL_EXAMPLES else 200
TEXTS: Final = (
    *("a", " word", "", "é", "\\u00e9", '\\n\\"', "\\ud83d", "\\ude00", "😀", "\udcff"),
    *(
        "\\u2028",
        "\x7f",
        "data: [DONE]\\n\\n",
        '\\"model\\":\\"theirs\\"',
        '{\\"usage\\":{}}',
        "\\u0000probe",
    ),
)
_CHUNK: Final = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]}'
CHOICES: Final = (
    *('{"index":0,"delta":{"content":"%s"},"finish_reason":null}',) * 6,
    '{"index":0,"delta":{"content":"%s"},"finish_reason":null,"logprobs":null}',
    '{"index":1,"delta":{"content":"%s"},"finish_reason":null}',
    '{"index":0,"delta":{"role":"assistant","content":"%s"},"finish_reason":null}',
    '{"index":0,"delta":{"reasoning_content":"%s"},"finish_reason":null}',
    '{"index":0,"delta":{"reasoning":"%s","content":""},"finish_reason":null}',
    '{"index":0,"delta":{"refusal":"%s"},"finish_reason":null}',
    (
        '{"index":0,"delta":{"content":"%s","annotations":[{"type":"url_citation","url_citation":'
        '{"start_index":0,"end_index":1,"url":"u","title":"t"}}]},"finish_reason":null}'
    ),
    '{"index":0,"delta":{"content":"%s","reasoning_content":"b"},"finish_reason":null}',
    (
        '{"index":0,"delta":{"content":"%s","tool_calls":[{"index":0,"id":"i","type":"function",'
        '"function":{"name":"f","arguments":"{}"}}]},"finish_reason":null}'
    ),
    (
        '{"index":0,"delta":{"tool_calls":[{"index":1,"id":"j","function":{"name":"g","arguments":""}}]},'
        '"finish_reason":null}'
    ),
    (
        '{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%s"}},'
        '{"id":"c","function":{"arguments":"%s"}}]},"finish_reason":null}'
    ),
    '{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"%s"}}]},"finish_reason":null}',
    '{"index":0,"delta":{"content":"%s","function_call":{"arguments":"%s"}},"finish_reason":null}',
    '{"index":0,"delta":{"content":"%s","own":{"model":"m","id":"c"}},"finish_reason":null}',
    '{"delta":{"content":"%s"},"index":1}',
    '{"index":1,"delta":null,"finish_reason":"stop"}',
    '{"index":0,"delta":{"content":"%s"},"finish_reason":"stop"}',
)
TEXT: Final = _CHUNK % CHOICES[0]
_DELTA: Final = '{"type":"content_block_delta","index":0,"delta":%s}'
_START: Final = '{"type":"content_block_start","index":0,"content_block":%s}'
EVENTS: Final[dict[str, tuple[str, ...]]] = {
    "chat": (
        *(_CHUNK % one for one in CHOICES),
        _CHUNK.replace("}", ',"usage":{"prompt_tokens":3,"completion_tokens":4}}') % CHOICES[0],
        TEXT[:-1] + ',"usage":null,"obfuscation":"%s"}',
        TEXT.replace('"model":"m"', '"model":"q\\""'),
        TEXT.replace('"id":"c"', '"id":"5319"'),
        TEXT.replace('"chat.completion.chunk"', "null"),
        '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":9}}',
    ),
    "messages": (
        *(_DELTA % '{"type":"text_delta","text":"%s"}',) * 6,
        _DELTA % '{"text":"%s","type":"text_delta","more":1}',
        _DELTA % '{"type":"thinking_delta","thinking":"%s"}',
        _DELTA % '{"type":"signature_delta","signature":"%s"}',
        _DELTA % '{"type":"input_json_delta","partial_json":"%s"}',
        _START % '{"type":"text","text":""}',
        _START % '{"type":"thinking","thinking":"","signature":""}',
        _START % '{"type":"tool_use","id":"i","name":"f","input":{}}',
        '{"type":"content_block_stop","index":0}',
        '{"type":"ping"}',
        '{"type":"content_block_note","index":0,"delta":{"type":"text_delta","text":"%s"}}',
        '{"type":"content_block_delta","index":0,"delta":{"text":"%s","thinking":"%s"}}',
        '{"type":"content_block_delta","delta":7}',
        '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}',
    ),
}
BEGIN: Final = {
    "chat": _CHUNK % '{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}',
    "messages": '{"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}}',
}
END: Final = {"chat": DONE, "messages": b'data: {"type":"message_stop"}\n\n'}


def open_stream(caller: str, upstream: str) -> Any:
    return EXCHANGES[caller][upstream].open_stream(make_context(usage=True, n=2))


def frame(events: list[str], upstream: str) -> bytes:
    return (
        "".join(f"data: {one}\n\n" for one in (BEGIN[upstream], *events)).encode(
            "utf-8", "surrogateescape"
        )
        + END[upstream]
    )


def draw_events(upstream: str, dice: random.Random) -> list[str]:
    """Draw events of which several in a row are of one kind, with texts of their own."""
    drawn: list[str] = []
    for _ in range(dice.randint(1, 6)):
        event = dice.choice(EVENTS[upstream])
        times = dice.randint(1, 4)
        drawn += (event.replace("%s", dice.choice(TEXTS)) for _ in range(times))
    return drawn


def play_plainly(caller: str, upstream: str, body: bytes) -> Played:
    stream = open_stream(caller, upstream)
    stream._may_learn = 0
    return play(stream, [body])


def tell(caller: str, upstream: str, played: Played) -> tuple[Played, list[Any]]:
    """Read the events between equal dialects: those that are repaired may lose escapes of ASCII."""
    if caller != upstream:
        return played, []
    lines = (one for one in played.out.splitlines() if one.startswith(b"data: {"))
    events = [json.loads(one[6:].decode("utf-8", "replace")) for one in lines]
    return replace(played, out=b""), events


@pytest.mark.hypothesis
@each_row(("caller", "upstream"), PAIRS)
def test_texts_say_and_cost_the_same(caller: str, upstream: str) -> None:
    dice = make_dice()
    for _ in range(TIMES):
        events = draw_events(upstream, dice)
        body = frame(events, upstream)
        played = play(open_stream(caller, upstream), random_slices(body, dice))
        expected = play_plainly(caller, upstream, body)
        assert tell(caller, upstream, played) == tell(caller, upstream, expected), events


@each_row("caller", [one for one in EXCHANGES if one != "chat"])
def test_a_reply_that_grows_too_large_costs_the_same(
    monkeypatch: pytest.MonkeyPatch, caller: str
) -> None:
    """Whether the usage comes behind it, or nothing."""
    monkeypatch.setattr(first_choice, "MAX_BUFFERED_CHARS", 4000)
    dice, (text, *_, usage) = make_dice(), EVENTS["chat"]
    for last in ((usage,), ()):
        body = frame([*(text.replace("%s", "x" * 400) for _ in range(20)), *last], "chat")
        for slices in ([body], random_slices(body, dice)):
            played = play(open_stream(caller, "chat"), slices)
            assert played.failure == "The upstream's reply is too large."
            assert played == play_plainly(caller, "chat", body)


@each_row(("caller", "upstream"), [("messages", "chat"), ("chat", "messages")])
def test_templates_are_used_and_given_up_where_they_never_match(caller: str, upstream: str) -> None:
    """Each event that differs around its text would cost a new template."""
    stream, (text, *_) = open_stream(caller, upstream), EVENTS[upstream]

    def feed(said: str) -> None:
        stream.feed(f"data: {said}\n\n".encode())

    feed(BEGIN[upstream])
    for number in range(3 * MAX_FRUITLESS):
        feed(text.replace("%s", "a").replace('"index"', f'"n":{number},"index"', 1))
        if number == MAX_FRUITLESS // 2:
            feed(text.replace("%s", "a"))
            feed(text.replace("%s", "b"))
            assert stream._may_learn == MAX_FRUITLESS
    assert stream._may_learn == 0
