"""Citations and annotations: each text names the same sources in all dialects. `heard.txt` has odd ones."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.exchanges import EXCHANGES
from tests.dialects.chat.kit import Json
from tests.dialects.vendor_bytes import (
    PAIRS,
    add_up,
    chunks,
    completion,
    hear,
    message,
    message_events,
    parse,
    read,
    response,
    response_events,
)
from tests.support.rows import each_row

BEFORE: Final = "Grüße 🎉. "
CITED: Final = "Claude Shannon was born on April 30, 1916"
AFTER: Final = ". He died in 2001."
TEXT: Final = BEFORE + CITED + AFTER
START: Final = len(BEFORE)
END: Final = START + len(CITED)

WIKI: Final = {"url": "https://en.wikipedia.org/wiki/Claude_Shannon", "title": "Claude Shannon"}
MIT: Final = {"url": "https://web.mit.edu/", "title": ""}
FOUND: Final = [(CITED, WIKI["url"], WIKI["title"]), (CITED, MIT["url"], MIT["title"])]
"""Sources of a reply, told to callers of every dialect."""


def locate(page: Json, start: int = START, end: int = END) -> Json:
    return {"type": "url_citation", "start_index": start, "end_index": end, **page}


def annotate(page: Json, start: int = START, end: int = END) -> Json:
    """Write an annotation as OpenRouter does, with a bit of the page."""
    held = {**page, "content": "Shannon …", "start_index": start, "end_index": end}
    return {"type": "url_citation", "url_citation": held}


def cite(page: Json) -> Json:
    """Write a citation as Anthropic does: a page may have no title."""
    quoted = {"cited_text": "Shannon …", "encrypted_index": "Eo8BCioIAhgBIiQy"}
    title = page["title"] or None
    return {"type": "web_search_result_location", **quoted, "url": page["url"], "title": title}


def delta(kind: str, **fields: Any) -> Json:
    return {"type": f"{kind}_delta", **fields}


def event(kind: str, **fields: Any) -> Json:
    where = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    return {"type": f"response.{kind}", **where, **fields}


PLACE: Final = {"type": "char_location", "cited_text": "x", "document_index": 0}
FILE: Final = {"type": "file_citation", "file_id": "file-1", "filename": "a.txt", "index": 3}
SEARCH: Final = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
BLOCKS: Final[list[Json]] = [
    SEARCH,
    {"type": "text", "text": BEFORE},
    {"type": "text", "text": CITED, "citations": [cite(WIKI), PLACE, cite(MIT)]},
    {"type": "text", "text": AFTER, "citations": [PLACE]},
]
STARTED: Final = {"type": "text", "text": "", "citations": []}
PART: Final = {
    "type": "output_text",
    "text": TEXT,
    "annotations": [locate(WIKI), FILE, locate(MIT)],
    "logprobs": [],
}
SEARCHED: Final = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
SAID: Final = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [PART],
}
ANNOTATIONS: Final = [annotate(WIKI), {"type": "file", "file": {}}, annotate(MIT)]

REPLIES: Final = {
    "chat": completion({"content": TEXT, "annotations": ANNOTATIONS}),
    "messages": message(*BLOCKS),
    "responses": response(SEARCHED, SAID),
}
ADDED: Final = [
    event("output_text.annotation.added", annotation_index=index, annotation=one)
    for index, one in enumerate(PART["annotations"])
]
TEXTS: Final = [event("output_text.delta", delta=one) for one in (BEFORE, CITED, AFTER)]
BEGUN: Final = {"type": "response.output_item.added", "output_index": 1}
DONE: Final = {"type": "response.output_item.done", "output_index": 1, "item": SAID}
SAYS: Final = [{"content": one} for one in (BEFORE, CITED, AFTER)]
STREAMS: Final = {
    "chat": [
        chunks(*SAYS, {"annotations": ANNOTATIONS}),  # OpenAI
        chunks({"annotations": ANNOTATIONS[:1]}, *SAYS, {"annotations": ANNOTATIONS[1:]}),
        chunks({"content": "", "annotations": ANNOTATIONS}, *SAYS),  # OpenRouter
        chunks({"content": TEXT, "annotations": ANNOTATIONS}),
    ],
    "messages": [
        message_events(
            (SEARCH, [delta("input_json", partial_json="{}")]),
            (STARTED, [delta("text", text=BEFORE)]),
            (
                STARTED,
                [
                    *(delta("citations", citation=one) for one in (cite(WIKI), PLACE, cite(MIT))),
                    *(delta("text", text=one) for one in (CITED[:9], CITED[9:])),
                ],
            ),
            (STARTED, [delta("text", text=AFTER)]),
        ),
        message_events(
            ({"type": "thinking", "thinking": ""}, [delta("thinking", thinking="Hm.")]),
            (STARTED, [delta("text", text=BEFORE)]),
            (
                {**STARTED, "citations": [cite(WIKI)]},
                [delta("text", text=CITED), delta("citations", citation=cite(MIT))],
            ),
            (STARTED, [delta("text", text=AFTER)]),
        ),
    ],
    "responses": [
        response_events({**BEGUN, "item": {**SAID, "content": []}}, *TEXTS, *ADDED, DONE),
        response_events({**BEGUN, "item": {**SAID, "content": []}}, *ADDED, *TEXTS),
        response_events(DONE),
    ],
}


def find_sources(caller: str, reply: Json) -> tuple[str, list[tuple[str, str, str]]]:
    """Return the text, and what of it is based on which page."""
    if caller == "messages":
        [block] = [one for one in reply["content"] if one["type"] == "text"]
        cited = block["citations"] or []
        assert all(one["encrypted_index"] == "" for one in cited)
        return block["text"], [(one["cited_text"], one["url"], one["title"]) for one in cited]
    if caller == "responses":
        [item] = [one for one in reply["output"] if one["type"] == "message"]
        [part] = item["content"]
        text, pages = part["text"], part["annotations"]
    else:
        said = reply["choices"][0]["message"]
        text, pages = said["content"], [one["url_citation"] for one in said["annotations"]]
    return text, [
        (text[one["start_index"] : one["end_index"]], one["url"], one["title"]) for one in pages
    ]


@each_row(("caller", "provider"), PAIRS)
def test_a_reply_names_its_sources(caller: str, provider: str) -> None:
    reply = parse(caller, read(caller, provider, REPLIES[provider]).body)
    assert find_sources(caller, reply) == (TEXT, FOUND)


@each_row(("caller", "provider"), PAIRS)
def test_a_stream_names_its_sources(caller: str, provider: str) -> None:
    """Sources may come behind the text, before it or with it."""
    for data in STREAMS[provider]:
        assert find_sources(caller, add_up(caller, hear(caller, provider, data))) == (TEXT, FOUND)


@each_row(("caller", "provider"), PAIRS)
def test_a_reply_that_should_have_been_a_stream_names_its_sources(
    caller: str, provider: str
) -> None:
    data = EXCHANGES[caller][provider].replay_reply(REPLIES[provider])
    assert find_sources(caller, add_up(caller, hear(caller, provider, data))) == (TEXT, FOUND)


@each_row(
    ("start", "end", "quoted"),
    [(-9, 3, "aaa"), (0, 10**9, "a" * 150), (7, 3, ""), (10**9, 10**9, ""), (298, 300, "aa")],
)
def test_a_quotation_is_short_and_within_the_text(start: int, end: int, quoted: str) -> None:
    """Anthropic quotes 150 characters at most, so many sources do not repeat a long text."""
    said = {"content": "a" * 300, "annotations": [annotate(MIT, start, end)]}
    whole = parse("messages", read("messages", "chat", completion(said)).body)
    heard = add_up("messages", hear("messages", "chat", chunks(said)))
    for reply in (whole, heard):
        _, [(cited, _, _)] = find_sources("messages", reply)
        assert cited == quoted
