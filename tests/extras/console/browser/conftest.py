"""One gateway for each module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.extras.console.browser.kit import Site, Witness
from tests.extras.console.browser.past import SEEDS_TOML, seed_long
from tests.extras.console.kit import Console, start_console


@pytest.fixture(autouse=True)
def password_cost() -> None:
    """Passwords have their real cost."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    """A gateway with the accounts holder, other and operator. The tests of a module share it."""
    folder = tmp_path_factory.mktemp("console")
    async with start_console(folder, seed=seed_long, more=SEEDS_TOML) as console:
        yield console


@pytest_asyncio.fixture(loop_scope="session")
async def site(browser: Browser, console: Console) -> AsyncIterator[Site]:
    witness = Witness(console.root_url)
    site = Site(browser, console, witness)
    yield site
    await site.close()
    assert witness.faults == []
