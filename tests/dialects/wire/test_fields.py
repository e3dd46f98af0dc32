"""Fields of a request: each is read with its type, or refused by a name that locates it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from gateway.base.errors import BadRequest
from gateway.dialects.wire.fields import Field, dump_request
from gateway.dialects.wire.records import CompletionRequest, Target
from tests.documents import FIELDS
from tests.support.formats import CALLERS, EXCHANGES
from tests.support.rows import each_row

BODY = {"messages": [{"role": "user", "content": [{"text": 7}]}], "empty": "", "none": None}


def refuse(read: Callable[[], object]) -> BadRequest:
    with pytest.raises(BadRequest) as refused:
        read()
    return refused.value


def test_a_field_is_named_by_its_place() -> None:
    (message,) = Field(BODY)["messages"].read_items()
    (part,) = message["content"].read_items()
    error = refuse(part["text"].read_string)
    assert error.param == "messages[0].content[0].text"
    assert error.code == "invalid_type"
    assert error.message.endswith("expected a string, but got an integer instead.")


def test_members_of_what_is_no_object_are_refused() -> None:
    role = Field(BODY)["messages"].read_items()[0]["role"]
    for read in (lambda: role["x"], lambda: role.get("x"), role.read_object, role.read_items):
        assert refuse(read).param == "messages[0].role"


@each_row("name", ["empty", "none", "absent"])
def test_a_text_that_has_to_be_there_is_missed(name: str) -> None:
    error = refuse(Field(BODY)[name].read_text)
    assert (error.param, error.code) == (name, "missing_required_parameter")


def test_a_refusal_says_no_content() -> None:
    field = Field({"prompt": "a secret"})["prompt"]
    for error in (field.refuse("It is too odd."), field.refuse_field()):
        assert error.param == "prompt"
        assert "secret" not in error.message


def test_what_can_be_read_but_not_written_is_too_deep() -> None:
    value: Any = []
    for _ in range(300):
        value = [value]
    assert "too deeply" in refuse(lambda: dump_request(value)).message


def test_only_base64_that_is_here_is_left_out_of_the_text() -> None:
    """The rest of a body is estimated as text."""
    request = CompletionRequest({}, "")
    request.add_url("picture", "data:image/png;base64,AAAA", "first")
    assert request.base64_chars == 4
    tokens = request.file_tokens
    assert tokens > 0
    for url in ("https://x/y.png", "data:text/plain,AAAA", None, 7):
        request.add_url("picture", url, "next")
    assert request.base64_chars == 4
    assert request.file_tokens > tokens, "a picture elsewhere is not free"


Json = dict[str, Any]

VALUES: Final[Json] = json.loads(Path(__file__).with_name("fields.json").read_text("utf-8"))
"""`least` are the fields that every request of a dialect needs, `samples` a value of each field that asks
for something, and `made` those that mean another thing in a dialect."""
TARGET: Final = Target(
    "theirs",
    takes=frozenset({"metadata", "prompt_cache_key", "safety_identifier", "service_tier", "user"}),
)
CASES: Final = [
    (*pair, fate, name)
    for pair, columns in FIELDS.items()
    for fate, names in zip(("carried", "left out", "refused"), columns, strict=True)
    for name in sorted(names)
]


def write(caller: str, upstream: str, body: Json) -> Json:
    """Return the request that the translation makes."""
    exchange = EXCHANGES[caller][upstream]
    assert exchange.translation is not None
    request = CALLERS[caller].parse_request(orjson.dumps(body))
    return exchange.translation.translate_request(request, TARGET)


@each_row(("caller", "upstream", "fate", "name"), CASES)
def test_a_field_is_treated_as_documented(caller: str, upstream: str, fate: str, name: str) -> None:
    least = {"model": "ours", **VALUES["least"][caller]}
    value = {**VALUES["samples"], **VALUES["made"][caller]}.get(name, {"a": "b"})
    asked = {**least, name: value}
    if fate == "refused":
        with pytest.raises(BadRequest) as caught:
            write(caller, upstream, asked)
        assert caught.value.param == name
    else:
        is_same = write(caller, upstream, asked) == write(caller, upstream, least)
        assert is_same == (fate == "left out")


def test_every_pair_of_unequal_dialects_has_its_row() -> None:
    names = CALLERS.keys()
    assert FIELDS.keys() == {(one, other) for one in names for other in names if one != other}
