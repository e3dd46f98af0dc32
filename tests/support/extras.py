"""Parts of the tests of extras, for other tests."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType

import pytest

from gateway.extension import find_extras
from tests import ROOT


@cache
def find_modules(name: str) -> Mapping[str, ModuleType]:
    """Import the modules of a name, one for each extra whose tests have it."""
    return {
        extra: import_module(f"tests.extras.{extra}.{name}")
        for extra in find_extras()
        if (ROOT / f"tests/extras/{extra}/{name}.py").is_file()
    }


def need_extra(name: str) -> pytest.MarkDecorator:
    """Skip a test, which may want the extra's fixtures, where it was taken away."""
    return pytest.mark.skipif(name not in find_extras(), reason=f'without the extra "{name}"')
