"""Pairs of dialects that have no translation of their own: two in a row, with chat in between.

Callers and providers of an extra's dialect meet those of all others this way: it has translations to and from
chat alone. The core's own dialects do not need it. Without it, a dialect that needs it goes, too.

composed  both translations as one, and refusals of the second one in the caller's words
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
