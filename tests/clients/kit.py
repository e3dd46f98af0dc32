"""Find and run the clients."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

CLIENTS: Final = Path(os.environ.get("GATEWAY_CLIENTS", "/nowhere"))
RUN_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Run:
    """A client's output and exit code."""

    code: int | None
    out: str


def find(*parts: str) -> Path:
    """Return the path of an installed client; skip the test if there is none."""
    path = CLIENTS.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path.name} is not installed: set GATEWAY_CLIENTS")
    return path


def read(name: str) -> str:
    """Return a script for Node."""
    return Path(__file__).with_name("scripts").joinpath(f"{name}.mjs").read_text(encoding="utf-8")


async def run_node(script: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a module with the packages of npm; return its output."""
    modules = find("node_modules")
    (folder / "node_modules").symlink_to(modules)
    path = folder / "script.mjs"
    path.write_text(script, encoding="utf-8")
    told = await run(("node", path), folder, environment)
    assert told.code == 0, told.out
    return told.out


async def run_python(script: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a script with the packages of pip; return its output."""
    python = find("venv", "bin", "python")
    path = folder / "script.py"
    path.write_text(script, encoding="utf-8")
    told = await run((python, path), folder, environment)
    assert told.code == 0, told.out
    return told.out


async def run(
    words: Sequence[str | Path], folder: Path, environment: Mapping[str, str], text: str = ""
) -> Run:
    """Run a client in a folder to its end; its output and its errors are one text."""
    process = await asyncio.create_subprocess_exec(
        *map(str, words),
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "NO_COLOR": "1", **environment},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(RUN_SECONDS):
            out, _ = await process.communicate(text.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Run(process.returncode, out.decode(errors="replace"))
