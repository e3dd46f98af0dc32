"""Write down what differs from run to run by names: ids, secrets, times."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import Final

SECRETS: Final = re.compile(
    r"(?P<id>(?:key|kept|batch|tok|ses)_[0-9a-f]{16}\b|order_[0-9a-f]{20,}\b|code_[0-9a-f]{23}\b|req_[0-9a-f]{28}\b)"
    r"|(?P<key>sk-ru-[A-Za-z0-9]{38,}|gw[tls]_[\w-]{43}|whsec_[\w-]{43}|(?<==)[\w-]{64}(?=;)|\b[A-Z2-7]{32}\b)"
    r"|(?P<code>\b[2-9A-HJ-NP-Z]{4}(?:-[2-9A-HJ-NP-Z]{4}){3,5}\b)"
    r"|(?P<shown>(?:…|\\u2026|····-?|(?:\\u00b7){4}-)[\w-]{4})"
)
"""Ids, keys, tokens, links and codes, and the ends by which people tell them apart."""
VARYING: Final = (
    (re.compile(r"(?!2999|2023|1970)\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d\.\d{3}Z)?"), "WHEN"),
    (re.compile(r"(?<=# )\d{4}-\d\d-\d\d(?=:)|(?<=\"toml\": \"# )\d{4}-\d\d-\d\d"), "TODAY"),
    (re.compile(r'(?<=, )\d+(?= bytes)|(?<="bytes": )\d+'), "BYTES"),
)
NAMED: Final = re.compile(r"(?:key|kept|batch|tok|ses|code|req|order)_\d+\b|SECRET-\d+")


class Scribe:
    """Replaces what differs from run to run by names, and names by what they stand for."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._names: dict[str, str] = {}
        kinds = ("key", "kept", "batch", "tok", "ses", "code", "req", "order")
        self._numbers = {kind: count(1) for kind in kinds}
        self._secrets = count(1)

    def write(self, text: str) -> str:
        text = SECRETS.sub(self._name, text.replace(self._folder, "DIR"))
        for pattern, name in VARYING:
            text = pattern.sub(name, text)
        return text

    def read(self, command: str) -> str:
        meant = {name: real for real, name in self._names.items()}
        return NAMED.sub(lambda found: meant.get(found[0], found[0]), command)

    def _name(self, found: re.Match[str]) -> str:
        real = found[0]
        if found["shown"]:
            return "…"
        if real not in self._names:
            prefix = real.partition("_")[0]
            number = next(self._numbers[prefix]) if found["id"] else next(self._secrets)
            self._names[real] = f"{prefix}_{number}" if found["id"] else f"SECRET-{number}"
        return self._names[real]
