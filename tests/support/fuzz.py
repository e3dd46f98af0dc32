"""Settings of the tests that draw: the same draws in each run, so that a change fails for its own faults.

GATEWAY_SEED draws others: any text, which property tests take as "fresh draws", printed on failure.
A plain run tries a fifth of the examples; all of them if GATEWAY_EXAMPLES is `all`, as `.ci/run daily` has for the
slow tests and those marked `hypothesis`: a test that draws without that package is marked by hand.
"""

from __future__ import annotations

import os
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

ALL_EXAMPLES: Final = os.environ.get("GATEWAY_EXAMPLES") == "all"
SEED: Final = os.environ.get("GATEWAY_SEED", "")


def fuzz(examples: int) -> settings:
    """Make a test search without leaving files; `@reproduce_failure` is printed."""
    return settings(
        max_examples=examples if ALL_EXAMPLES else max(examples // 5, 5),
        deadline=None,
        database=None,
        derandomize=not SEED,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )


json_values: Final[st.SearchStrategy[Any]] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
