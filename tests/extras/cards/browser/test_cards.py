"""Credit bought by card on the page: to the payment page, back, and to the entry."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, Route

from tests.extras.cards.stripe_server import run_stripe
from tests.extras.console.browser.kit import Site, Witness
from tests.extras.console.kit import open_console
from tests.support.served import HOLDER, OPERATOR

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("account", [HOLDER, OPERATOR])
async def test_a_payment_leads_to_its_entry(browser: Browser, tmp_path: Path, account: str) -> None:
    async with run_stripe() as stripe, open_console(tmp_path, billing=stripe.billing) as console:
        # Within the gateway's own address: the witness minds every other.
        stripe.pages = f"{console.root_url}/pay"
        witness = Witness(console.root_url)
        site = Site(browser, console, witness)
        page = await site.open("billing", account)

        async def come_back(route: Route) -> None:
            session = stripe.sessions[route.request.url.rpartition("/")[2]]
            await route.fulfill(status=303, headers={"Location": session["success_url"]})

        await page.route("**/pay/*", come_back)
        await page.get_by_label("Amount", exact=True).fill("4")
        with witness.expecting(400):
            await page.get_by_role("button", name="Pay $4").click()
            await page.get_by_text("must be from 5.00 to 100000.00 USD").first.wait_for()
        await page.get_by_role("button", name="$25.00", exact=True).click()
        assert not stripe.sessions, "an amount is only filled in"
        await page.get_by_role("button", name="Pay $25.00").click()
        await page.get_by_text("Waiting for the payment").first.wait_for()
        assert list(stripe.sessions) == ["cs_test_1"]
        assert stripe.sessions["cs_test_1"]["amount_total"] == 2500
        stripe.pay("cs_test_1")
        await page.get_by_text("The payment has arrived: $25.00 added.").first.wait_for()
        assert page.url.endswith("/console/billing")
        receipt = page.get_by_role("link", name="Receipt")
        assert "/receipt" in (await receipt.first.get_attribute("href") or "")
        await page.locator(".balance").get_by_text("$125.00").first.wait_for()
        if account == OPERATOR:
            await page.get_by_role("link", name="Card payments").click()
            await page.get_by_role("cell", name="paid").wait_for()
            await page.get_by_role("link", name="Entry").click()
            await page.get_by_role("link", name="Receipt").wait_for()
        await site.close()
        assert witness.faults == []
