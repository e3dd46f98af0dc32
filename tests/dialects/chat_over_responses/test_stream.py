"""Responses streams as chunks, with events left out. `heard.txt` has the rest."""

from __future__ import annotations

from typing import Any

from tests.dialects.chat.kit import Played, check_stream
from tests.dialects.chat_over_responses.kit import (
    ITEMS,
    custom,
    end,
    message,
    play_events,
    refusal,
    write_items,
)
from tests.support.rows import each_row

Json = dict[str, Any]


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


ALL = (*ITEMS, message(refusal("No.")), custom("c3", "h", "raw"))


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
def test_what_some_upstreams_leave_out_is_found_elsewhere(lacking: tuple[str, ...]) -> None:
    events = write_items(*ALL)
    kept = [each for each in events if not each["type"].endswith(lacking)]
    assert len(kept) < len(events)
    played = play_events(*kept, end())
    assert gather(played) == gather(play_events(*events, end()))
    check_stream(played.chunks, usage=False)


def test_items_are_told_apart_by_their_ids_where_they_have_no_index() -> None:
    events = write_items(*(item for item in ALL if item["type"] != "reasoning"))
    bare = []
    for each in events:
        index = each["output_index"]
        bare.append({key: held for key, held in each.items() if key != "output_index"})
        if "item_id" in each:
            bare[-1]["item_id"] = f"i{index}"
        else:
            bare[-1]["item"] = {**each["item"], "id": f"i{index}"}
    assert gather(play_events(*bare, end())) == gather(play_events(*events, end()))
