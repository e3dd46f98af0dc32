"""Limits on the roots of schemas: what is at one is written, and one more is left out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.dialects.wire.records import Json
from gateway.extras.tool_schemas.roots import shape_root
from tests.support.rows import each_row


def shape_nested(levels: int) -> None:
    schema: Json = {"properties": {"deep": {}}}
    for _ in range(levels):
        schema = {"allOf": [schema]}
    assert shape_root(schema)["properties"]


def combine_roots(number: int) -> None:
    roots: list[Json] = [{"properties": {f"m{one}": {}}} for one in range(number)]
    assert len(shape_root({"anyOf": roots})["properties"]) == number


def combine_members(number: int) -> None:
    roots = [{"properties": {"m": {"const": one}}} for one in range(number)]
    assert shape_root({"anyOf": roots})["properties"]["m"] != {}


def describe_names(number: int) -> None:
    roots = [{"required": [*map(str, range(one))]} for one in (1, number - 1)]
    assert "description" in shape_root({"anyOf": roots})


def describe_root(chars: int) -> None:
    assert "description" in shape_root({"const": "x" * (chars - len('const: ""'))})


@each_row(
    ("most", "use"),
    [
        *((8, shape_nested), (256, combine_roots), (32, combine_members)),
        *((256, describe_names), (2000, describe_root)),
    ],
)
def test_the_limit_is_kept_and_one_more_is_not(most: int, use: Callable[[int], None]) -> None:
    use(most)
    with pytest.raises(AssertionError):
        use(most + 1)
