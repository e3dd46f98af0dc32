"""The first start with the shipped configuration, and what it leaves behind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests import ROOT
from tests.support.process import GatewayProcess, free_port

KEY: Final = re.compile(r"sk-ru-[0-9A-Za-z]{38}")


def start_newcomer(folder: Path) -> GatewayProcess:
    """Start a gateway with the shipped gateway.toml, changed only in its port."""
    gateway = GatewayProcess(folder, free_port())
    text = (ROOT / "gateway.toml").read_text(encoding="utf-8")
    changed = re.sub(r"(?m)^port = \d+", f"port = {gateway.port}", text)
    assert changed != text
    gateway.config.write_text(changed, encoding="utf-8")
    gateway.start()
    return gateway


def find_first_key(gateway: GatewayProcess) -> tuple[Path, str]:
    """Find the one file beside the database that the log names and that has a key in it."""
    for path in gateway.folder.iterdir():
        if path.name in gateway.log and path not in {gateway.config, gateway.database}:
            found = KEY.search(path.read_text(encoding="utf-8", errors="replace"))
            if found:
                return path, found[0]
    raise AssertionError(gateway.log)
