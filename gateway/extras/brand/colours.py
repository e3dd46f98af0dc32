"""Shades of a colour that can be read on given surfaces: contrast as WCAG 2.2 defines it.

No colour can be read as a text on a white and on a nearly black page at once. So the accent is not refused: it is
mixed with black for the light theme and with white for the dark one, as little as it takes, and keeps its hue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

Colour = tuple[int, int, int]
READABLE: Final = 4.5
"""The least contrast of a text with what is behind it (WCAG 2.2, 1.4.3)."""
LINEAR: Final = 10
"""The largest part of a colour, of 255, in the straight part of sRGB's curve: 0.04045 by its standard."""
STEPS: Final = 100
"""Steps in which colours are mixed: one cannot be told from the next."""


@dataclass(frozen=True, slots=True)
class Theme:
    """The console's colours in a theme."""

    surfaces: tuple[Colour, ...]
    """Backgrounds of texts; the first is that of cards."""
    dim: Colour
    """The faintest text that stands on a tint."""
    end: Colour
    """Black or white: what is farthest from the surfaces."""
    tint: int
    """The most of the accent in a tint, in steps."""


def parse(text: str) -> Colour:
    """Read `#rrggbb` or `#rgb`."""
    digits = text.removeprefix("#")
    if len(digits) == len("rgb"):
        digits = "".join(one * 2 for one in digits)
    red, green, blue = bytes.fromhex(digits)
    return red, green, blue


def write(colour: Colour) -> str:
    return f"#{bytes(colour).hex()}"


def measure_contrast(one: Colour, other: Colour) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    dark, light = sorted((_measure_luminance(one), _measure_luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _measure_luminance(colour: Colour) -> float:
    red, green, blue = (
        value / 255 / 12.92 if value <= LINEAR else ((value / 255 + 0.055) / 1.055) ** 2.4
        for value in colour
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def shade(accent: Colour, theme: Theme) -> tuple[Colour, Colour]:
    """Return the shade of an accent in a theme, and the tint behind chosen items and notices."""
    tints = (_mix(theme.surfaces[0], accent, step) for step in range(theme.tint, -1, -1))
    tint = next(one for one in tints if _is_readable(theme.dim, [one]))
    shades = (_mix(accent, theme.end, step) for step in range(STEPS + 1))
    return next(one for one in shades if _is_readable(one, [*theme.surfaces, tint])), tint


def _is_readable(text: Colour, surfaces: Iterable[Colour]) -> bool:
    return all(measure_contrast(text, one) >= READABLE for one in surfaces)


def _mix(one: Colour, other: Colour, step: int) -> Colour:
    red, green, blue = (
        round((own * (STEPS - step) + its * step) / STEPS)
        for own, its in zip(one, other, strict=True)
    )
    return red, green, blue
