"""All that callers and providers speak here: the core's formats, and those of the extras that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.extension import find_formats
from tests import ROOT

FORMATS: Final = find_formats()
CALLERS: Final = FORMATS.callers
UPSTREAMS: Final = FORMATS.upstreams
TRANSLATIONS: Final = FORMATS.translations
EXCHANGES: Final = FORMATS.exchanges
COUNTERS: Final = {one.path: one for one in FORMATS.counters}
SERVICES: Final = {one.caller.name: one for one in FORMATS.services}
EVERY_CALLER: Final = FORMATS.every_caller


def find_texts(name: str) -> list[Path]:
    """Return the texts of extras that continue one of the core's."""
    return sorted((ROOT / "tests/extras").glob(f"*/{name}"))
