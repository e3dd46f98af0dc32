"""Readings of gateway.toml: `read.txt` has texts (those of extras beside their tests), and what a part of each configuration is.

`= models.m.kind` names a part, and its value follows, as JSON. `OPENAI` stands for a provider that is in
order. To write the values anew:

    WRITE_SESSION=1 python -m pytest tests/config/test_read.py && git diff
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final

import pytest

from tests import ROOT
from tests.support.rows import told_together
from tests.support.settings import CANARY, OPENAI, load
from tests.support.stand_in import PASSWORD, URL

READ: Final = (Path(__file__).with_name("read.txt"), *sorted(ROOT.glob("tests/extras/*/read.txt")))
PROXY: Final = f"http://user:{CANARY}@proxy.example.com:3128"
PART: Final = re.compile(r"^= (\S+).*$", re.MULTILINE)


def write(value: object) -> object:
    """Write what JSON does not know; of a record what it was made with and is not empty."""
    if dataclasses.is_dataclass(value):
        found = {
            one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.init
        }
        return {name: one for name, one in found.items() if one not in (None, (), {}, "")}
    if isinstance(value, Mapping):
        return dict(value)
    return sorted(value) if isinstance(value, AbstractSet) else str(value)


def show(config: object, part: str, folder: Path) -> str:
    value: Any = config
    names = part.split(".")
    while names:
        name = names.pop(0)
        if isinstance(value, Mapping):
            while name not in value:
                name = f"{name}.{names.pop(0)}"
            value = value[name]
        else:
            value = value[int(name)] if isinstance(value, tuple) else getattr(value, name)
    return json.dumps(value, default=write, ensure_ascii=False).replace(str(folder), "DIR")


def read(folder: Path, block: str) -> str:
    """Load the text of a block; return the block with the values that its parts have."""
    for name, content in (
        ("secret", URL),
        ("key", CANARY),
        ("proxy", PROXY),
        ("lines", f"{CANARY}\n{CANARY}"),
    ):
        (folder / name).write_text(f"{content}\n", encoding="utf-8")
    environ = {"DATABASE_URL": f"{URL}\n", "HOOK": "https://a.example/b", "SECRET": CANARY}
    environ |= {
        "DOTS": "your-api-key",
        "QUOTED": f'"{CANARY}"',
        "BEARER": f"Bearer {CANARY}",
        "WITHIN": "sk-${X}",
        "MARKED": 'p@ss"',
    }
    environ |= {"SECOND": CANARY, "EMPTY": " \n", "PROXY": PROXY, "FOLDER": str(folder)}
    lines = [line for line in block.split("\n") if not line.startswith("= ")]
    config = load(folder, "\n".join(lines).replace("OPENAI", OPENAI), environ)
    assert not [one for one in (CANARY, PASSWORD) if one in repr(config)]
    return PART.sub(lambda found: f"= {found[1]} {show(config, found[1], folder)}", block)


@pytest.mark.parametrize("path", READ, ids=lambda path: path.parent.name)
def test_each_part_is_read_as_it_is_written(tmp_path: Path, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    blocks = text.split("\n\n")
    found = [read(tmp_path, block) for block in blocks]
    if "WRITE_SESSION" in os.environ:
        path.write_text("\n\n".join(found), encoding="utf-8")
    with told_together() as row:
        for got, block in zip(found, blocks, strict=True):
            with row(block):
                assert got == block
