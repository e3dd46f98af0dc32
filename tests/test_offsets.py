"""The upstream's death at every offset of a recorded stream, with the official SDKs as judges.

Here every 7th offset (every 35th where dialects are translated); all of them: `long.py offsets`.
"""

from __future__ import annotations

import pytest
from offsets_kit import PAIRS, play_offsets
from support import recorded

pytestmark = pytest.mark.skipif(
    not recorded.FOLDER.is_dir(), reason="the recorded streams (../shared/streams) are not here"
)
STEP = 7
TRANSLATED_STEP = 35


@pytest.mark.parametrize(("caller", "provider"), PAIRS)
async def test_a_death_at_any_offset_is_never_a_silently_short_answer(
    caller: str, provider: str
) -> None:
    step = STEP if caller == provider else TRANSLATED_STEP
    played, wrong = await play_offsets(caller, provider, step)
    assert played > 100
    assert not wrong, "\n".join(wrong)
