"""All that callers and providers speak here: the core's formats, and those of the extras that are there."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from gateway.extension import find_extras, find_formats
from tests import ROOT

FORMATS: Final = find_formats()
CALLERS: Final = FORMATS.callers
UPSTREAMS: Final = FORMATS.upstreams
TRANSLATIONS: Final = FORMATS.translations
EXCHANGES: Final = FORMATS.exchanges
SERVICES: Final = {one.caller.name: one for one in FORMATS.services}
EVERY_CALLER: Final = FORMATS.every_caller


def find_counters() -> Mapping[str, Any]:
    """Return the paths that count tokens; none without the extra that has them."""
    if "count_tokens" not in find_extras():
        return {}
    paths = import_module("gateway.extras.count_tokens.paths")
    return {one.path: one for one in paths.find_counters()}


COUNTERS: Final = find_counters()


def find_texts(name: str) -> list[Path]:
    """Return the texts of extras that continue one of the core's."""
    return sorted((ROOT / "tests/extras").glob(f"*/{name}"))
