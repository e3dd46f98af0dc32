"""The checks of fields and tools that change a provider's bill, with a table of the test's own."""

from __future__ import annotations

import pytest

from gateway.dialects import Target
from gateway.dialects.wire.billed import Billed, among, check_fields, check_tool, refuse
from gateway.errors import BadRequest
from tests.dialects.billed import PRICES, SEARCHING

TABLE = {
    "first": Billed(among("free"), lambda value, _: value == "priced"),
    "second": Billed(),
}
PLAIN = Target("up", prices=PRICES)


@pytest.mark.parametrize("nothing", [None, [], {}, "", False])
def test_a_value_that_asks_for_nothing_passes(nothing: object) -> None:
    check_fields({"second": nothing, "other": 1}, TABLE, PLAIN)


@pytest.mark.parametrize("value", [None, "free", "priced"])
def test_what_is_free_or_has_a_price_passes(value: object) -> None:
    check_fields({"first": value}, TABLE, PLAIN)


def test_the_first_field_of_the_table_is_named_unless_it_is_allowed() -> None:
    body = {"second": 1, "first": "dear"}
    with pytest.raises(BadRequest, match="'first' 'dear'"):
        check_fields(body, TABLE, PLAIN)
    allowing = Target("up", prices=PRICES, allow=frozenset({"first"}))
    with pytest.raises(BadRequest, match="'second'"):
        check_fields(body, TABLE, allowing)


def test_a_tool_is_allowed_by_its_family_by_all_or_by_the_price_of_a_search() -> None:
    for allow in ("web_search", "tools"):
        check_tool("tools[0]", "x", "web_search", Target("up", allow=frozenset({allow})))
    check_tool("tools[0]", "x", "web_search", Target("up", prices=SEARCHING))
    for target in (PLAIN, Target("up", prices=SEARCHING, allow=frozenset({"web_search"}))):
        with pytest.raises(BadRequest, match="run this tool itself"):
            check_tool("tools[0]", "x", "web_fetch", target)


@pytest.mark.parametrize(
    ("value", "named"),
    [("priority", "'tier' 'priority'."), ("some prose", "'tier'."), (["priority"], "'tier'.")],
)
def test_a_value_is_quoted_only_if_it_is_a_word(value: object, named: str) -> None:
    """Anything else may be content."""
    error = refuse("tier", value, "It costs")
    assert error.message.startswith(f"Unsupported parameter: {named}")
    assert error.param == "tier"
