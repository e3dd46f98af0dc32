"""The upstream's death at every offset of a stream, judged by the official SDKs.

A plain run plays a few offsets, `.ci/run` every 7th (every 35th if dialects are translated).
All: `python -m tests.long offsets`.
"""

from __future__ import annotations

import pytest

from tests.api.offsets import PAIRS, play_offsets

STEP = 7
TRANSLATED_STEP = 35
COARSE = 11
"""A plain run takes every 11th of those offsets."""


@pytest.mark.parametrize(("caller", "provider"), PAIRS)
@pytest.mark.parametrize("coarse", [COARSE, pytest.param(1, marks=pytest.mark.slow)])
async def test_a_death_at_any_offset_is_never_a_silently_short_answer(
    caller: str, provider: str, coarse: int
) -> None:
    step = STEP if caller == provider else TRANSLATED_STEP
    played, wrong = await play_offsets(caller, provider, step * coarse)
    assert played > 100 // coarse
    assert not wrong, "\n".join(wrong)
