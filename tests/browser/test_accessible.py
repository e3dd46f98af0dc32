"""All pages, in both themes, narrow and wide: axe finds nothing serious."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Sequence
from importlib import resources
from typing import Any, Final, Literal

import pytest
import pytest_asyncio
from playwright.async_api import Page

from tests.browser.kit import (
    HEIGHT,
    HOLDER_PAGES,
    NARROW,
    OPERATOR_PAGES,
    OUTSIDE,
    WIDE,
    Site,
    go,
    open_call,
    read_title,
    wait_for_title,
)
from tests.console.kit import HOLDER, MODEL, OPERATOR, Console
from tests.support.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

AXE: Final = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
GRAVE: Final = {"serious", "critical"}
RUN_AXE: Final = """async (rules) => {
    const options = { resultTypes: ["violations"], ...(rules.length && { runOnly: rules }) };
    return (await axe.run(options)).violations.map((one) =>
        ({ id: one.id, impact: one.impact, nodes: one.nodes.map((node) => node.html.slice(0, 200)) }));
}"""
RULES_OF_COLOUR: Final = ("color-contrast", "link-in-text-block")
"""Rules whose result depends on the theme."""

Theme = Literal["light", "dark"]
THEMES: Final[tuple[Theme, ...]] = ("light", "dark")


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def lived_in(console: Console) -> AsyncIterator[None]:
    """A gateway whose holder has a key, requests and a code; codes of each kind exist.

    Its file waits for a restart, and was refused at the last reload.
    """
    made = await console.post("/console/api/keys", {"name": "laptop", "cap": "5"})
    for words in ("one", "two"):
        await console.complete(made.json["secret"], words, model=MODEL)
    terms = {"amount": "5", "count": 3, "note": "Workshop"}
    codes = await console.post("/console/api/codes", terms, as_=OPERATOR, key="codes")
    for name, role in (("shop", "accounts"), ("monitor", "read")):
        terms = {"name": name, "role": role, "expires": "2999-01-01"}
        await console.post("/console/api/tokens", terms, as_=OPERATOR)
    code = {"code": codes.json["codes"][0]}
    assert (await console.post("/console/api/billing/redeem", code, key="code")).status == 200
    process = console.process
    assert process is not None
    text = process.config.read_text()
    for changed, said in (
        (
            text.replace(f"port = {console.port}", "port = 1"),
            "a restart is needed for: server.port",
        ),
        (f"{text}\n[models.{'long' * 20}]\nprice = 1", "the reload is refused"),
    ):
        process.config.write_text(changed)
        assert process.process is not None
        process.process.send_signal(signal.SIGHUP)
        await until(lambda: said in process.log, said)  # noqa: B023
    process.config.write_text(text)
    yield


async def find_grave(page: Page, rules: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return axe's serious and critical findings, by all rules or by the given ones."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE)
    found: list[dict[str, Any]] = await page.evaluate(RUN_AXE, rules)
    return [one for one in found if one["impact"] in GRAVE]


async def inspect(page: Page, path: str) -> dict[str, Any]:
    """Return axe's findings on a page, wide and narrow, in both themes."""
    faults: dict[str, Any] = {}
    for width in (NARROW, WIDE):
        await page.set_viewport_size({"width": width, "height": HEIGHT})
        for theme in THEMES:
            await page.emulate_media(color_scheme=theme)
            await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => done()))")
            rules = () if theme == "light" else RULES_OF_COLOUR
            if found := await find_grave(page, rules):
                faults[f"{path} at {width} px, {theme}"] = found
    titles = await page.locator("h1").all_inner_texts()
    return faults if len(titles) == 1 else {**faults, f"{path} titles": titles}


@pytest.mark.parametrize("who", [HOLDER, OPERATOR])
async def test_axe_finds_no_fault_on_any_page(site: Site, who: str) -> None:
    """The holder's pages with data, and the operator's pages with and without data."""
    pages = HOLDER_PAGES if who == HOLDER else {**OPERATOR_PAGES, "": "Overview", "keys": "Keys"}
    page = await site.open("", who)
    faults: dict[str, Any] = {}
    for path, title in pages.items():
        with site.witness.expecting(404):
            await go(page, path)
        assert await read_title(page) == title
        faults |= await inspect(page, path)
    await open_call(page)
    faults |= await inspect(page, "a call")
    assert faults == {}


async def test_axe_finds_no_fault_in_sign_in_and_dialogs(site: Site) -> None:
    faults: dict[str, Any] = {}
    context = await site.enter(None)
    for path, title in OUTSIDE.items():
        page = await context.new_page()
        await go(page, path)
        assert await read_title(page) == title
        faults |= await inspect(page, path)
    page = await site.open("keys?new=1", HOLDER)
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Cap, USD").fill("much")
    with site.witness.expecting(400):
        await dialog.get_by_role("button", name="Create key").click()
        await dialog.get_by_role("alert").wait_for()
    faults |= await inspect(page, "dialog with an error")
    await dialog.get_by_label("Cap, USD").fill("1")
    await dialog.get_by_role("button", name="Create key").click()
    await wait_for_title(page, "Key created")
    faults |= await inspect(page, "key created")
    assert faults == {}


async def test_error_is_tied_to_its_field(site: Site) -> None:
    """The summary on top has the focus; the field is marked invalid and names the reason."""
    page = await site.open("keys?new=1", HOLDER)
    dialog = page.get_by_role("dialog")
    cap = dialog.get_by_label("Cap, USD")
    await cap.fill("-1")
    with site.witness.expecting(400):
        await dialog.get_by_role("button", name="Create key").click()
        await dialog.get_by_role("alert").wait_for()
    summary = await dialog.get_by_role("alert").inner_text()
    focused = await page.evaluate("document.activeElement.textContent")
    assert focused == summary
    assert await cap.get_attribute("aria-invalid") == "true"
    described = (await cap.get_attribute("aria-describedby") or "").split()
    texts = [await page.locator(f"#{one}").inner_text() for one in described]
    assert summary in texts
    await dialog.get_by_role("link").click()
    assert await cap.evaluate("(field) => field === document.activeElement")


async def test_chart_has_its_table(site: Site) -> None:
    """The picture is one image with a conclusion; the table under it has its data."""
    page = await site.open("usage", HOLDER)
    chart = page.locator(".plot svg[role=img]")
    await chart.wait_for()
    name = await page.evaluate(
        "(svg) => document.getElementById(svg.getAttribute('aria-labelledby')).textContent",
        await chart.element_handle(),
    )
    assert name == (await page.locator("figcaption").inner_text()).split("\n")[0].strip()
    hidden = await chart.evaluate(
        "(svg) => [...svg.querySelectorAll('text')].every((one) => one.ariaHidden === 'true')"
    )
    assert hidden
    assert await page.get_by_role("table", name="Usage by day").is_visible()


async def test_every_page_has_the_same_strict_policy(site: Site) -> None:
    """Every page has the same strict policy, and the browser reports no violation."""
    page = await site.open("", OPERATOR)
    policies = set()
    for path in [*HOLDER_PAGES, *OPERATOR_PAGES, *OUTSIDE, "static/app.js"]:
        reply = await page.request.get(f"/console/{path}")
        policies.add(reply.headers["content-security-policy"])
    [policy] = policies
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    await page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.head.append(script);
        }"""
    )
    faults = site.witness.faults
    await until(lambda: any("CSP: script-src-elem" in one for one in faults), "a violation")
    assert await page.evaluate("window.ran") is None
    faults.clear()
