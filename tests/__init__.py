"""The tests: folders mirror the package; helpers lie beside the tests that use them.

`support/` drives a real gateway from outside; `streams/` has what providers send; `long/` has the
runs that take minutes, `bench/` the benchmark.
"""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
"""The repository."""
