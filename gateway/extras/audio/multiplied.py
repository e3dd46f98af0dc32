"""The fields that make more of speech and of transcripts than is counted."""

from __future__ import annotations

from typing import Final

from gateway.dialects.wire.billed import BAGS
from gateway.extras.services.multiplied import asks_more, make_rows, other_inputs

_MORE_CHOICES: Final = ("n", "num_outputs", "num_return_sequences", "num_samples")
SPEECH: Final = {
    **other_inputs("input"),
    # Texts of several speakers.
    **make_rows(("dialogue", "script", "segments")),
    **make_rows(_MORE_CHOICES, asks=asks_more),
}
TRANSCRIPTS: Final = {
    # ElevenLabs and Deepgram charge for each channel.
    **make_rows(("multichannel", "use_multi_channel")),
    **make_rows(BAGS),  # in a form, nothing says what is in them
    **make_rows((*_MORE_CHOICES, "num_channels"), asks=asks_more),
}
