"""Find and run the clients."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support.process import GatewayProcess

CLIENTS: Final = Path(os.environ.get("GATEWAY_CLIENTS", "/nowhere"))
RUN_SECONDS: Final = 300.0
MISSING: Final = re.compile(r"(?:Cannot find package|No module named) '([\w@./-]+)'")
SCRIPTS: Final = Path(__file__).with_name("scripts")


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


async def run_text(language: str, text: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run Python with the packages of pip, or `js` with those of npm; return its output."""
    path = folder / f"script.{'mjs' if language == 'js' else 'py'}"
    path.write_text(text, encoding="utf-8")
    if language == "js":
        (folder / "node_modules").symlink_to(find("node_modules"))
    interpreter = "node" if language == "js" else find("venv", "bin", "python")
    told = await run((interpreter, path), folder, environment)
    if told.code and (missing := MISSING.search(told.out)):
        pytest.skip(f"{missing[1]} is not installed beside the other clients")
    assert told.code == 0, told.out
    return told.out


async def run_script(
    name: str, folder: Path, gateway: GatewayProcess, key: str, model: str, **more: str
) -> str:
    """Run one of the scripts beside these tests; return its output.

    Its variables name the gateway and the model, and those of OpenAI the gateway to SDKs.
    """
    given = {"KEY": key, "BASE_URL": gateway.base_url, "MODEL": model, **more}
    of_openai = {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": gateway.base_url}
    language = "js" if name.endswith(".mjs") else "python"
    text = (SCRIPTS / name).read_text(encoding="utf-8")
    return await run_text(language, text, folder, given | of_openai)


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
