"""One browser for all tests of a worker, of whichever extra: to start one takes more than most tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest_asyncio

if TYPE_CHECKING:  # a plain run has no use for it
    from playwright.async_api import Browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    from tests.extras.console.browser.kit import launch

    async with launch() as browser:
        yield browser
