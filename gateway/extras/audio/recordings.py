"""How long a recording may be, by its first bytes and its size. Nothing is decoded.

The length is charged if the provider does not report it, and a caller writes the recording. So a rate is
the lowest of the format, and a number in the head is believed only if it could be true, or if it makes
the recording longer. Nothing bounds the silence in a compressed file: only a WAV file has a most.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from gateway.base.usage import UNBOUNDED

_LOWEST_RATE: Final = 750
"""Bytes of a second at 6 kbit/s, the lowest rate of Opus and about that of the others' for speech."""
_LOWEST_FLAC_RATE: Final = 2000
"""Bytes of a second of speech that is compressed without loss, at 8,000 samples a second."""
_LOWEST_WAVE_RATE: Final = 8000
"""Bytes of a second at 8,000 samples of 8 bits."""
_WAVE: Final = struct.Struct("<8x8s4xHHI6xH")
"""The beginning of a WAV file behind `RIFF`: `WAVEfmt `, the form, channels, samples a second, bits of a
sample. The fields left out follow from these; wrong values in them would not change the transcript."""
_PCM: Final = 1
"""The form of uncompressed samples."""
_SAMPLES, _CHANNELS, _BITS = range(8_000, 192_001), range(1, 9), range(8, 33)
"""The rates, channels and sizes of samples in recordings. A head with more would make any file a second long."""
_FLAC: Final = struct.Struct(">18xQ")
"""The beginning of a FLAC file behind `fLaC`: samples a second (20 bits), channels and bits of a sample
(8 bits), all samples (36 bits)."""


@dataclass(frozen=True, slots=True)
class Length:
    """The seconds of a recording."""

    likely: int
    more: int = UNBOUNDED
    """The seconds that it may have beyond these."""


def measure(head: bytes, size: int) -> Length:
    """Return the length of a recording of so many bytes, which begins like this."""
    if head.startswith(b"RIFF") and len(head) >= _WAVE.size:
        wave, form, channels, samples, bits = _WAVE.unpack_from(head)
        is_known = samples in _SAMPLES and channels in _CHANNELS and bits in _BITS
        if is_known and (wave, form) == (b"WAVEfmt ", _PCM):
            likely = _divide(size, samples * channels * bits // 8)
            return Length(likely, _divide(size, _LOWEST_WAVE_RATE) - likely)
    if head.startswith(b"fLaC") and len(head) >= _FLAC.size:
        (told,) = _FLAC.unpack_from(head)
        samples, total = told >> 44, told & (1 << 36) - 1
        stated = _divide(total, samples) if samples else 0
        return Length(max(_divide(size, _LOWEST_FLAC_RATE), stated))
    return Length(_divide(size, _LOWEST_RATE))


def _divide(size: int, rate: int) -> int:
    return -(-size // rate) or 1
