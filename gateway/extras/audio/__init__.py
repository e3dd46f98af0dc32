"""`/v1/audio/speech`, a text read aloud, and `/v1/audio/transcriptions`, the text of a recording.

Without it there are no models of `kind = "audio"`. Recordings within conversations are the core's.

speech       OpenAI's API of speech, and the embedded provider's silence
transcripts  OpenAI's API of transcripts, and what the embedded provider states of a recording
recordings   how long a recording may be
forms        forms with a file, read piece by piece
sent_forms   the forms that are sent to upstreams
uploads      bodies that are forms; their file is kept in memory or on disk
settings     the key of this extra in the table [server] of gateway.toml
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.base.usage import TOKENS_PER_SECOND
from gateway.dialects.wire.billed import BAGS
from gateway.dialects.wire.records import IN_AND_OUT, Kind, Pricing
from gateway.extension import Extra, Started, Table
from gateway.extras.services.multiplied import asks_more, make_rows, other_inputs

if TYPE_CHECKING:
    from gateway.api.state import Gateway
    from gateway.dialects.formats import Formats

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
    **make_rows(BAGS),  # in a form these are strings, so their members cannot be checked
    **make_rows((*_MORE_CHOICES, "num_channels"), asks=asks_more),
}
"""The fields that multiply speech and transcripts beyond what is counted."""

_MAX_SECONDS = 14_400
"""The default for the most seconds of a recording. Vendors take files of 25 MB, which are rarely longer."""
_KIND = Kind(
    (
        Pricing(frozenset({"minute"}), "second", _MAX_SECONDS, "minute", "transcript"),
        # A model with output tokens transcribes: it writes text, as chat models do.
        Pricing(
            IN_AND_OUT.needed,
            most_input=_MAX_SECONDS * TOKENS_PER_SECOND,
            mark="output",
            makes="transcript",
        ),
        Pricing(frozenset({"input"}), "character"),
    ),
    allows=(*SPEECH, *TRANSCRIPTS),
    others="tts stt speech transcription whisper",
)


def _find_settings() -> type:
    from gateway.extras.audio.settings import Server

    return Server


def _find_formats() -> Formats:
    from gateway.dialects.exchanges import Exchange
    from gateway.dialects.formats import Formats
    from gateway.extras.audio.speech import SpeechCaller, SpeechUpstream
    from gateway.extras.audio.transcripts import TranscriptsCaller, TranscriptsUpstream

    speech = Exchange(SpeechCaller(), SpeechUpstream())
    return Formats(services=(speech, Exchange(TranscriptsCaller(), TranscriptsUpstream())))


def _start(gateway: Gateway) -> Started:  # noqa: ARG001 - the handlers get the gateway with each call
    from gateway.api.routes import Endpoint
    from gateway.extension import find_formats
    from gateway.extras.audio.uploads import Disk, serve_form

    disk = Disk()
    callers = tuple(one for one in find_formats().every_caller if one.name == "transcripts")
    serve = partial(serve_form, disk)
    endpoint = Endpoint("POST", "/v1/audio/transcriptions", "charged", serve, callers)
    return Started(endpoints=(endpoint,), offers=(disk,), close=disk.close)


EXTRA = Extra(
    needs=("services",),
    tables={"server": Table(_find_settings)},
    kinds={"audio": _KIND},
    find_formats=_find_formats,
    start=_start,
)
