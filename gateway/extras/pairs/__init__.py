"""Pairs of dialects without a direct translation: two translations in a row, with chat in between.

An extra's dialect has translations only to and from chat, and reaches all other dialects this way. The core's
own dialects do not need it. Without this extra, a dialect that needs it has to be removed, too.

composed  both translations as one, and refusals of the second one with the caller's names
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra

if TYPE_CHECKING:
    from gateway.dialects.formats import Formats


def _find_formats() -> Formats:
    from gateway.dialects.formats import Formats
    from gateway.extras.pairs.composed import compose

    return Formats(compose=compose)


EXTRA = Extra(find_formats=_find_formats)
