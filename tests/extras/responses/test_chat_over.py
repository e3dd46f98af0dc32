"""Chat callers over Responses: what some upstreams leave out. `requests` and `heard.txt` have the rest."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from tests import streams
from tests.dialects.chat.kit import (
    Json,
    Played,
    check_stream,
    make_context,
    make_dice,
    play,
    random_slices,
)
from tests.extras.responses.kit import frame
from tests.streams import Stream
from tests.support.formats import EXCHANGES
from tests.support.fuzz import fuzz
from tests.support.rows import each_row


def record(kind: str, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({"type": st.just(kind), **members})


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)
arguments = st.dictionaries(texts, st.integers() | texts | st.lists(texts), max_size=3)
said = record("output_text", text=texts) | record("refusal", refusal=texts.filter(bool))
items = st.one_of(
    record("message", content=st.lists(said, max_size=3)),
    record("reasoning", summary=st.lists(record("summary_text", text=texts), max_size=3)),
    record("function_call", call_id=names, name=names, arguments=arguments.map(json.dumps)),
    record("custom_tool_call", call_id=names, name=names, input=texts),
)
details = st.sampled_from(
    [None, {"reason": "max_output_tokens"}, {"reason": "content_filter"}, {"reason": "new"}]
)
EXCHANGE: Final = EXCHANGES["chat"]["responses"]


@fuzz(100)
@given(
    st.lists(items, min_size=1, max_size=5), st.sampled_from(["completed", "incomplete"]), details
)
def test_a_stream_says_what_the_whole_reply_says_in_any_slicing(
    output: list[Json], status: str, detail: Json | None
) -> None:
    reply = json.dumps(
        {"object": "response", "status": status, "output": output, "incomplete_details": detail}
    ).encode()
    (choice,) = json.loads(EXCHANGE.read_reply(reply, make_context()).body)["choices"]
    body = EXCHANGE.replay_reply(reply, make_context()).body
    whole = play(EXCHANGE.open_stream(make_context()), [body])
    check_stream(whole.chunks, usage=False)
    keys, calls, finish = gather(whole)
    message = choice["message"]
    assert keys == {key: message.get(key) or "" for key in keys}
    assert calls == [
        [call["id"], *call[call["type"]].values()] for call in message.get("tool_calls", [])
    ]
    assert finish == choice["finish_reason"]
    for _ in range(3):
        pieces = random_slices(body, make_dice())
        assert play(EXCHANGE.open_stream(make_context()), pieces) == whole


def gather(played: Played) -> list[Any]:
    """Return what was said without the fragments: each key's text, and each call."""
    texts: dict[str, str] = {}
    calls: dict[int, list[str]] = {}
    for choice in played.choices:
        delta = choice["delta"]
        for key in ("reasoning_content", "content", "refusal"):
            texts[key] = texts.get(key, "") + (delta.get(key) or "")
        for part in delta.get("tool_calls", []):
            (held,) = (part[kind] for kind in ("function", "custom") if kind in part)
            made = calls.setdefault(part["index"], [part.get("id", ""), held.get("name", ""), ""])
            made[2] += held.get("arguments", held.get("input", ""))
    return [texts, list(calls.values()), played.choices[-1]["finish_reason"]]


def list_events(stream: Stream) -> list[Json]:
    """Return the events of a stream; the last one has no items, as some upstreams leave it."""
    *told, last = stream.objects
    return [*told, {**last, "response": {**last["response"], "output": []}}]


def play_events(*told: Json) -> Played:
    return play(EXCHANGE.open_stream(make_context()), [frame(*told)])


@streams.each(*streams.RESPONSES)
@each_row(
    "lacking",
    [
        (".delta",),
        (".delta", ".added"),
        (".added",),
        (".delta", "_text.done", "refusal.done", "_arguments.done", "_input.done", "_part.done"),
        ("output_item.done",),
        (".delta", "output_item.done"),
        (".delta", ".added", "_text.done", "refusal.done", "_arguments.done", "_input.done"),
    ],
)
def test_what_some_upstreams_leave_out_is_found_elsewhere(
    stream: Stream, lacking: tuple[str, ...]
) -> None:
    told = list_events(stream)
    kept = [one for one in told if not one["type"].endswith(lacking)]
    assert len(kept) < len(told)
    played = play_events(*kept)
    assert gather(played) == gather(play_events(*told))
    check_stream(played.chunks, usage=False)


@streams.each(*streams.RESPONSES)
def test_items_are_told_apart_by_their_ids_where_they_have_no_index(stream: Stream) -> None:
    told = list_events(stream)
    bare = [{key: one[key] for key in one if key != "output_index"} for one in told]
    assert gather(play_events(*bare)) == gather(play_events(*told))
