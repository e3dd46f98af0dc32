"""Halves of characters in a model's text become U+FFFD, wherever the text is cut."""

from __future__ import annotations

import json

from gateway.dialects.wire.halves import JsonMender, mend_json
from tests.dialects.chat.kit import make_dice

PIECES = (r"\ud83d", r"\uDE00", r"\\", r"\"", "ud83d", "é", "x")


def test_halves_that_stand_alone_are_replaced_however_the_text_comes() -> None:
    dice = make_dice()
    for size in (1, 2, 5, 64):
        for _ in range(99):
            said = "".join(dice.choices(PIECES, k=12)) + r"\ud83d"
            mender = JsonMender()
            told = [mender.feed(said[at : at + size]) for at in range(0, len(said), size)]
            told.append(mender.close())
            units = json.loads(f'"{said}"').encode("utf-16-le", "surrogatepass")
            for mended in ("".join(told), mend_json(said)):
                assert json.loads(f'"{mended}"') == units.decode("utf-16-le", "replace"), ascii(
                    said
                )
