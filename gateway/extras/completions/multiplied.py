"""The fields that make more text than is counted."""

from __future__ import annotations

from typing import Final

from gateway.dialects.wire.multiplied import other_inputs

MULTIPLIED: Final = other_inputs("prompt")
