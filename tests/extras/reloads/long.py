"""
python -m tests.long reloads --reloads 50           of prices, a provider, a key; 64 connections
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Final

from tests.extras.reloads.reloading import play_reloads

CONNECTIONS: Final = 64


async def run_reloads(options: argparse.Namespace, folder: Path) -> None:
    figures = await play_reloads(folder, options.reloads, CONNECTIONS, options.seed)
    print(figures)
    figures.check()


Run = Callable[[argparse.Namespace, Path], Coroutine[None, None, None]]
RUNS: Final[dict[str, Run]] = {"reloads": run_reloads}
