"""An item of a request is named as the caller numbers it."""

from __future__ import annotations

from typing import Any

from tests.extras.pairs.test_composed import refuse
from tests.support.rows import each_row


@each_row("before", range(5))
@each_row("behind", range(3))
@each_row(
    "parts",
    ["bad", [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "bad"}]],
)
def test_an_item_is_found_wherever_it_is(before: int, behind: int, parts: Any) -> None:
    good, system = ({"role": role, "content": "Hi"} for role in ("user", "developer"))
    items = [system, *[good] * before, {"role": "user", "content": parts}, *[good] * behind]
    place = "" if parts == "bad" else ".content[1]"
    assert refuse("responses", input=items) == f"input[{before + 1}]{place}"
