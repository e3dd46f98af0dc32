"""The browser, and a witness of errors for every page it opens.

A test asks its `Site` for pages, signed in as an account. At its end no page may have logged an
error, violated the content security policy or sent a request to another host.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    async_playwright,
)

from gateway.extras.console.additions import find_additions
from tests import ROOT
from tests.extras.console.kit import Console
from tests.support.served import OPERATOR

PROGRAMS: Final = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The first draws pages and has no windows, menus or extensions: it costs half as much as the others."""
TIMEOUT_MS: Final = 30_000
WIDE: Final = 1280
NARROW: Final = 320
HEIGHT: Final = 800
HOLDER_PAGES, OPERATOR_PAGES, OUTSIDE = (
    dict(line[1:].split("  ") for line in part.strip().split("\n")[1:])
    for part in Path(__file__).with_name("pages.txt").read_text("utf-8").split("== ")[1:]
)
HOLDER_PAGES |= {name: label for one in find_additions() for name, label in one.own_pages.items()}
OPERATOR_PAGES |= {name: name.capitalize() for one in find_additions() for name in one.pages}
for added in sorted(ROOT.glob("tests/extras/*/browser/pages.txt")):
    if added.parent != Path(__file__).parent:
        rows = added.read_text("utf-8").strip().split("\n")[1:]
        OPERATOR_PAGES |= dict(row[1:].split("  ") for row in rows)
PICTURES: Final = os.environ.get("CONSOLE_SCREENSHOTS")
"""The folder for pictures of the pages, if they are asked for."""
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
REPORT_VIOLATIONS: Final = """
    addEventListener("securitypolicyviolation", (event) =>
        console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
"""
FOLLOW: Final = """(path) => {
    const link = document.createElement("a");
    link.href = path;
    document.body.append(link);
    link.click();
    link.remove();
}"""
_FAILED_LOAD: Final = re.compile(r"Failed to load resource: .* status of (\d{3})")


@cache
def find_chromium() -> str | None:
    return next((found for one in PROGRAMS if (found := shutil.which(one))), None)


@asynccontextmanager
async def launch() -> AsyncIterator[Browser]:
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium here: apt-get install chromium-headless-shell")
    arguments = ["--disable-gpu", "--disable-background-networking", "--no-first-run"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")  # its sandbox refuses to run as root
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Witness:
    """Records errors of a page that must not happen.

    It has no slots, as Playwright sets an attribute on the objects that its handlers are bound to.
    """

    home: str
    faults: list[str] = field(default_factory=list)
    expected: set[int] = field(default_factory=set)
    """Statuses of error replies that the test provokes."""
    is_absent: bool = False
    """Whether the gateway may be away."""

    @contextmanager
    def expecting(self, *statuses: int, absent: bool = False) -> Iterator[None]:
        """Expect error replies that the test provokes; `absent`: the gateway may be away."""
        before = self.expected, self.is_absent
        self.expected, self.is_absent = self.expected | set(statuses), absent
        yield
        self.expected, self.is_absent = before

    def watch(self, page: Page) -> None:
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.faults.append(f"{page.url}: {error}"))
        page.on("request", self._see)
        page.on("dialog", lambda dialog: self.faults.append(f"{page.url}: dialog {dialog.message}"))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type not in {"error", "warning"}:
            return
        status = _FAILED_LOAD.match(message.text)
        if status and int(status[1]) in self.expected:
            return
        if self.is_absent and "net::ERR_CONNECTION" in message.text:
            return
        self.faults.append(f"{message.location.get('url')}: {message.text}")

    def _see(self, request: Request) -> None:
        if not request.url.startswith((f"{self.home}/", f"blob:{self.home}/")):
            self.faults.append(f"asked {request.url}")


@dataclass(slots=True)
class Site:
    """One test's browser windows on a served gateway."""

    browser: Browser
    console: Console
    witness: Witness
    contexts: list[BrowserContext] = field(default_factory=list)

    @property
    def home(self) -> str:
        return self.console.root_url

    async def enter(
        self, as_: str | None = OPERATOR, *, watched: bool = True, **options: Any
    ) -> BrowserContext:
        """Open a separate window; with `as_` None nobody is signed in."""
        options.setdefault("viewport", {"width": WIDE, "height": HEIGHT})
        options.setdefault("reduced_motion", "reduce")
        context = await self.browser.new_context(base_url=self.home, **options)
        context.set_default_timeout(TIMEOUT_MS)
        await context.add_init_script(REPORT_VIOLATIONS)
        self.contexts.append(context)
        if as_ is not None:
            await self.sign_in(context, as_)
        if watched:
            context.on("page", self.witness.watch)
        return context

    async def sign_in(self, context: BrowserContext, name: str) -> None:
        """Open a new session by a sign-in link."""
        known = self.console.cookies.get(name)
        await self.console.sign_in(name)
        cookie, _, value = self.console.cookies[name].partition("=")
        if known is not None:
            self.console.cookies[name] = known
        await context.add_cookies([{"name": cookie, "value": value, "url": self.home}])

    async def open(self, path: str, as_: str | None = OPERATOR, **options: Any) -> Page:
        """Open a page of the console and wait until it is complete."""
        context = await self.enter(as_, **options)
        page = await context.new_page()
        await go(page, path)
        return page

    async def close(self) -> None:
        for context in self.contexts:
            await context.close()
        self.contexts.clear()


async def take_pictures(page: Page, name: str) -> None:
    """Take pictures of a page for a person to look at before a release, where that is asked for.

    `overview.png`, which README shows, is the top of `holder--light-1280.png` with fewer colours.
    """
    name = "".join(one if one.isalnum() else "-" for one in name)
    for width in (WIDE, NARROW) if PICTURES else ():
        await page.set_viewport_size({"width": width, "height": HEIGHT})
        for theme in THEMES:
            await page.emulate_media(color_scheme=theme)
            path = Path(PICTURES or "", f"{name}-{theme}-{width}.png")
            await page.screenshot(path=path, full_page=True)


async def go(page: Page, path: str) -> None:
    await page.goto(f"/console/{path}")
    await settle(page)


async def move(page: Page, path: str) -> None:
    """Go to a page as by a link on the one before, which takes a quarter of what loading it does."""
    await page.evaluate(FOLLOW, f"/console/{path}")
    await settle(page)


async def settle(page: Page) -> None:
    """Wait until the page shows something and nothing is loading."""
    await page.locator("main h1").first.wait_for()
    await page.locator("main:not([aria-busy])").wait_for()


async def read_title(page: Page) -> str:
    return await page.locator("main h1").inner_text()


async def wait_for_title(page: Page, title: str) -> None:
    await page.locator("main h1", has_text=re.compile(f"^{re.escape(title)}$")).wait_for()


async def open_call(page: Page) -> str:
    """Follow the link to the latest call; return its request id."""
    await go(page, "activity")
    link = page.locator("tbody a.mono").first
    request_id = await link.inner_text()
    await link.click()
    await wait_for_title(page, "Call")
    return request_id


async def download(page: Page, name: str) -> str:
    """Download a link's file as a person does and return its text."""
    async with page.expect_download() as event:
        await page.get_by_role("link", name=name).click()
    path = await (await event.value).path()
    return await asyncio.to_thread(path.read_text, encoding="utf-8")


async def read_table(page: Page, caption: str) -> list[dict[str, str]]:
    """Read a table like a screen reader: each row's cells by their column headings."""
    rows: list[dict[str, str]] = await page.evaluate(
        """(caption) => {
            const region = document.querySelector(`[role=region][aria-label="${caption}"]`);
            const heads = [...region.querySelectorAll("thead th")].map((one) => one.textContent);
            const text = (cell) => {
                const money = cell.querySelector("data.money");
                return money ? money.value || money.getAttribute("value") : cell.textContent;
            };
            return [...region.querySelectorAll("tbody tr, tfoot tr")].map((row) =>
                Object.fromEntries([...row.cells].map((cell, at) => [heads[at], text(cell)])));
        }""",
        caption,
    )
    return rows
