"""Kill the gateway again and again under load, and hold its books against what callers saw.

    python tests/kill.py --kills 200 --seed 1

Exits 1 when a complete reply is not on the ledger, a charge is there twice, or a sum is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from pathlib import Path

import kill_kit


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--streams", type=int, default=50, help="at once")
    parser.add_argument("--others", type=int, default=50, help="JSON requests at once")
    options = parser.parse_args()
    logging.getLogger("gateway").setLevel(logging.ERROR)  # every recovery would say that it was one
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(
            kill_kit.run(
                Path(folder),
                kills=options.kills,
                seed=options.seed,
                streams=options.streams,
                others=options.others,
            )
        )
    print(figures)
    for problem in (*figures.lost, *figures.doubled, *figures.wrong)[:50]:
        print(problem)
    return 0 if figures.ok else 1


if __name__ == "__main__":
    sys.exit(main())
