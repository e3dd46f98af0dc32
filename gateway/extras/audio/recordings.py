"""The possible length of a recording, from its first bytes and its size. Nothing is decoded.

The length is charged if the provider reports none, and a caller could forge a file. So the lowest rate of
the format is assumed, and a number in the head is trusted only if it is plausible, or if it makes the
recording longer. Silence in a compressed file may have any length: only WAV files have an upper bound.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from gateway.base.usage import UNBOUNDED

_LOWEST_RATE: Final = 750
"""Bytes of a second at 6 kbit/s: the lowest rate of Opus, and about that of other formats for speech."""
_LOWEST_FLAC_RATE: Final = 2000
"""Bytes of a second of speech that is compressed without loss, at 8,000 samples a second."""
_LOWEST_WAVE_RATE: Final = 8000
"""Bytes of a second at 8,000 samples of 8 bits."""
_WAVE: Final = struct.Struct("<8x8s4xHHI6xH")
"""The head of a WAV file after `RIFF`: `WAVEfmt `, the format, channels, samples per second, bits per sample.
The skipped fields follow from these, and wrong values in them would not change the transcript."""
_PCM: Final = 1
"""The number of the format for uncompressed samples."""
_SAMPLES, _CHANNELS, _BITS = range(8_000, 192_001), range(1, 9), range(8, 33)
"""Plausible rates, channels and bits of samples: larger ones in a head could make any file a second long."""
_FLAC: Final = struct.Struct(">18xQ")
"""The head of a FLAC file after `fLaC`: samples per second (20 bits), channels and bits per sample (8 bits),
number of all samples (36 bits)."""


@dataclass(frozen=True, slots=True)
class Length:
    """The length of a recording in seconds: the expected one, and how much longer it may be."""

    likely: int
    more: int = UNBOUNDED
    """The seconds that it may last beyond `likely`."""


def measure(head: bytes, size: int) -> Length:
    """Return the possible length of a recording, from its first bytes and its size in bytes."""
    if head.startswith(b"RIFF") and len(head) >= _WAVE.size:
        wave, form, channels, samples, bits = _WAVE.unpack_from(head)
        is_known = samples in _SAMPLES and channels in _CHANNELS and bits in _BITS
        if is_known and (wave, form) == (b"WAVEfmt ", _PCM):
            likely = _divide(size, samples * channels * bits // 8)
            return Length(likely, _divide(size, _LOWEST_WAVE_RATE) - likely)
    if head.startswith(b"fLaC") and len(head) >= _FLAC.size:
        (facts,) = _FLAC.unpack_from(head)
        samples, total = facts >> 44, facts & (1 << 36) - 1
        stated = _divide(total, samples) if samples else 0
        return Length(max(_divide(size, _LOWEST_FLAC_RATE), stated))
    return Length(_divide(size, _LOWEST_RATE))


def _divide(size: int, rate: int) -> int:
    return -(-size // rate) or 1
