"""A whole dialect: this folder, which a test puts among the extras. No line elsewhere knows it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gateway.dialects.wire.records import Dialect
from gateway.extension import Extra

if TYPE_CHECKING:
    from gateway.dialects.formats import Formats


def _find_formats() -> Formats:
    formats: Formats = import_module(f"{__name__}.dialect").FORMATS
    return formats


EXTRA = Extra(dialects={"tiny": Dialect("a toy")}, find_formats=_find_formats)
