"""Messages callers: bodies that are none, lists of models, inputs of tools, thinking of earlier turns. `requests` has the rest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import pytest

from gateway.base.errors import BadRequest
from gateway.dialects.messages.caller import MessagesCaller
from gateway.dialects.messages.history import may_think, read_arguments, wrap_arguments
from gateway.dialects.wire.base import ListedModel
from tests.support.formats import CALLERS
from tests.support.rows import each_row

Json = dict[str, Any]

USER = {"role": "user", "content": "Hi"}
MESSAGES = CALLERS["messages"]


def dump(value: Any) -> bytes:
    return json.dumps(value).encode()


@each_row("data", [b"", b" ", b"{", b"[]", b"7", b"\xff", b'{"a":"\\ud800"}'])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        MESSAGES.parse_request(data)


MODELS: Final = [ListedModel(f"m{n}", "chat", "us", 0, 10, 20) for n in range(25)]


def page(**query: str | Sequence[str]) -> tuple[list[str], bool]:
    """Return the ids of a page, and whether there are more."""
    asked = {name: [value] if isinstance(value, str) else value for name, value in query.items()}
    made = MessagesCaller().list_models(MODELS, asked)
    ids = [one["id"] for one in made["data"]]
    ends = (made["first_id"], made["last_id"])
    assert ends == ((ids[0], ids[-1]) if ids else (None, None))
    return ids, made["has_more"]


def ids_of(first: int, last: int) -> list[str]:
    return [f"m{n}" for n in range(first, last)]


def test_pages_lead_through_the_list_and_back() -> None:
    assert page() == (ids_of(0, 20), True)
    assert page(after_id="m19") == (ids_of(20, 25), False)
    assert page(limit="3", after_id="m3") == (ids_of(4, 7), True)
    assert page(limit="3", before_id="m4") == (ids_of(1, 4), True)
    assert page(limit="3", before_id="m2") == (ids_of(0, 2), False)
    assert page(after_id="m24") == ([], False)
    assert page(limit="2", after_id="m3", before_id="m9") == (ids_of(4, 6), True)


def test_a_page_has_at_most_1000_models() -> None:
    assert page(limit="1") == (["m0"], True)
    many = [ListedModel(f"m{n}", "chat", "us", 0, 10, 20) for n in range(1001)]
    made = MessagesCaller().list_models(many, {"limit": ["1000"]})
    assert (len(made["data"]), made["has_more"], made["last_id"]) == (1000, True, "m999")


@each_row(
    "query",
    [
        {"limit": "0"}, {"limit": "1001"}, {"limit": "-1"}, {"limit": "ten"}, {"limit": "٣"},
        {"after_id": "none"}, {"before_id": "none"},
    ],
)  # fmt: skip
def test_a_bad_query_is_refused_by_name(query: dict[str, str]) -> None:
    with pytest.raises(BadRequest) as refused:
        page(**query)
    assert [refused.value.param] == list(query)


def test_all_that_is_served_is_active() -> None:
    assert page(lifecycle=["active", "retired"], limit="1") == (["m0"], True)
    assert page(**{"lifecycle[]": ["retired"]}) == ([], False)


def test_what_is_unknown_of_a_model_is_null() -> None:
    shown = MessagesCaller().show_model(ListedModel("m", "chat", "us", 86_400, 10, 20))
    assert (shown["id"], shown["created_at"]) == ("m", "1970-01-02T00:00:00Z")
    assert (shown["max_input_tokens"], shown["max_tokens"]) == (10, 20)
    assert [shown[name] for name in ("capabilities", "deprecated_at", "retires_at")] == [None] * 3


def test_what_is_no_json_is_none() -> None:
    assert (read_arguments('"a"'), read_arguments("a")) == ("a", None)
    assert (wrap_arguments({"a": 1}), wrap_arguments(7)) == ({"a": 1}, {"arguments": 7})


SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
REDACTED = {"type": "redacted_thinking", "data": "x"}
CALL = {"type": "tool_use", "id": "t", "name": "f", "input": {}}


def test_only_a_last_turn_with_calls_has_to_begin_with_thinking() -> None:
    def turns(*contents: Any) -> list[Json]:
        said = [{"role": "assistant", "content": one} for one in contents]
        return [*said, {"role": "user", "content": "Hi"}]

    assert may_think([])
    assert may_think(turns("Hi"))
    assert may_think(turns([CALL], [SIGNED, CALL]))
    assert may_think(turns([REDACTED, CALL]))
    assert not may_think(turns([SIGNED, CALL], [CALL]))
