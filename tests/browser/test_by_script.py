"""A script does by the API what people do on the page, with the same results and errors."""

from __future__ import annotations

import pytest
from playwright.async_api import Page

from tests.browser.kit import Site, go, read_table, wait_for_title
from tests.console.kit import API, HOLDER, OPERATOR, Console

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_what_a_holder_does_by_the_api_is_on_the_page(site: Site, console: Console) -> None:
    """Keys, a code, the password and sessions: done by the API, then shown by the page."""
    made = await console.post(f"{API}/keys", {"name": "script", "cap": "3"})
    key = made.json["key"]["id"]
    assert (await console.patch(f"{API}/keys/{key}", {"name": "robot"})).status == 200
    turned = await console.post(f"{API}/keys/{key}/rotate", {"grace_seconds": 0})
    assert (await console.complete(made.json["secret"])).status == 401
    assert (await console.complete(turned.json["secret"])).status == 200
    terms = {"amount": "4", "count": 1}
    codes = await console.post(f"{API}/codes", terms, as_=OPERATOR, key="script")
    code = {"code": codes.json["codes"][0]}
    redeemed = await console.post(f"{API}/billing/redeem", code, key="script")
    overview = await console.get(f"{API}/overview")
    page = await site.open("", HOLDER)
    shown = await page.locator("data.big").get_attribute("value")
    assert shown == overview.json["balance"]
    assert float(redeemed.json["balance"]) > 100
    await go(page, "keys?status=all")
    names = [row["Name"] for row in await read_table(page, "Keys")]
    assert sorted(name.removesuffix("no cap") for name in names) == ["robot", "robotexpired"]
    await go(page, "activity")
    [call] = (await console.get(f"{API}/activity")).json["calls"]
    [row] = await read_table(page, "Calls")
    assert call["request_id"] in row["Started (UTC), request id"]
    assert row["Cost, USD"] == call["cost"]
    password = {"new_password": "a long enough one"}
    assert (await console.post(f"{API}/settings/password", password)).status == 204
    with site.witness.expecting(401):
        await page.get_by_role("link", name="Keys").click()
        await wait_for_title(page, "Sign in")


async def test_what_an_operator_does_by_the_api_is_on_the_page(
    site: Site, console: Console
) -> None:
    added = await console.post(
        f"{API}/accounts", {"name": "acme", "credit": "9", "note": "hi"}, as_=OPERATOR, key="add"
    )
    account = f"{API}/accounts/{added.json['id']}"
    steps = [
        ("credit", {"amount": "1", "note": "invoice 1"}),
        ("correct", {"amount": "-0.5", "note": "too much"}),
        ("suspend", {"reason": "asked for"}),
        ("signin-link", None),
    ]
    for verb, body in steps:
        reply = await console.post(f"{account}/{verb}", body, as_=OPERATOR, key=verb)
        assert reply.status in {200, 201}, reply.body
    assert (await console.post(f"{API}/audit", as_=OPERATOR)).json["ok"]
    page = await site.open("accounts/acme", OPERATOR)
    assert await page.locator("data.big").get_attribute("value") == "9.50"
    moves = await read_table(page, "Movements of the balance")
    assert [row["For"] for row in moves] == ["too much", "invoice 1", "hi"]
    assert await page.get_by_text("Suspended: calls with").is_visible()
    await go(page, "audit")
    assert await page.get_by_text("Balances and entries agree").is_visible()
    done = [row["What"] for row in await read_table(page, "Audit log")]
    wanted = ["account.add", "account.credit", "account.correct", "account.suspend"]
    assert set(wanted) <= set(done)


async def test_an_operator_sets_limits_and_roles_on_the_page(site: Site, console: Console) -> None:
    """The API tells what the dialogs set; an empty field clears a limit."""
    added = await console.post(f"{API}/accounts", {"name": "limited"}, as_=OPERATOR, key="limited")
    account = f"{API}/accounts/{added.json['id']}"
    await console.patch(account, {"concurrency": 4}, as_=OPERATOR)
    page = await site.open("accounts/limited", OPERATOR)

    async def submit(label: str, filled: dict[str, str], button: str) -> dict[str, object]:
        await page.get_by_role("button", name=label, exact=True).click()
        dialog = page.get_by_role("dialog")
        for name, value in filled.items():
            await dialog.get_by_label(name).fill(value)
        await dialog.get_by_role("button", name=button, exact=True).click()
        await dialog.wait_for(state="detached")
        told: dict[str, object] = (await console.get(account, as_=OPERATOR)).json
        return told

    filled = {"Requests per minute": "60", "Tokens per minute": "0", "Requests at once": ""}
    told = await submit("Limits", filled, "Set limits")
    names = ("requests_per_minute", "tokens_per_minute", "concurrency", "models")
    assert [told[name] for name in names] == [60, 0, None, None]
    limits = page.locator("section", has=page.get_by_role("heading", name="Limits"))
    await limits.get_by_text("60", exact=True).wait_for()
    assert (await submit("Make operator", {}, "Make operator"))["operator"]
    await page.get_by_role("button", name="Demote", exact=True).wait_for()
    assert not (await submit("Demote", {}, "Demote"))["operator"]
    await go(page, f"accounts/{OPERATOR}")
    assert await page.get_by_role("button", name="Limits", exact=True).is_visible()
    for name in ("Demote", "Suspend", "Sign out"):
        button = page.locator("main").get_by_role("button", name=name, exact=True)
        assert await button.count() == 0, f"{name}: one's own account"


async def refusal_on_page(page: Page, submit: str) -> str:
    await page.get_by_role("button", name=submit, exact=True).click()
    alert = page.get_by_role("alert").first
    await alert.wait_for()
    return await alert.inner_text()


async def test_the_page_shows_the_refusals_of_the_api(site: Site, console: Console) -> None:
    """The page shows the API's own error message."""
    page = await site.open("keys?new=1", OPERATOR)
    with site.witness.expecting(400, 409):
        await page.get_by_label("Cap, USD").fill("lots")
        wanted = await console.post(f"{API}/keys", {"cap": "lots"}, as_=OPERATOR)
        assert await refusal_on_page(page, "Create key") == wanted.error["message"]
        await go(page, "billing")
        await page.get_by_label("Top-up code").fill("AAAA-BBBB-CCCC-DDDD")
        code = {"code": "AAAA-BBBB-CCCC-DDDD"}
        wanted = await console.post(f"{API}/billing/redeem", code, as_=OPERATOR, key="no")
        assert await refusal_on_page(page, "Redeem") == wanted.error["message"]
        await go(page, "accounts")
        await page.get_by_role("button", name="Add an account").click()
        await page.get_by_role("dialog").get_by_label("Name").fill(HOLDER)
        taken = {"name": HOLDER}
        wanted = await console.post(f"{API}/accounts", taken, as_=OPERATOR, key="taken")
        assert await refusal_on_page(page, "Add account") == wanted.error["message"]
        await go(page, "usage?from=2026-02-02&to=2026-01-01")
        wanted = await console.get(f"{API}/usage?from=2026-02-02&to=2026-01-01", as_=OPERATOR)
        shown = await page.get_by_role("alert").inner_text()
        assert shown.partition("\n")[0] == wanted.error["message"]


async def test_budgets_are_managed_on_the_page(site: Site, console: Console) -> None:
    """The API tells what the dialogs did: a shared budget, and keys that spend from one."""
    page = await site.open("keys", OPERATOR)
    dialog = page.get_by_role("dialog")

    async def submit(button: str) -> None:
        await dialog.get_by_role("button", name=button, exact=True).click()
        await dialog.wait_for(state="detached")

    async def read(path: str) -> list[dict[str, object]]:
        told: list[dict[str, object]] = (await console.get(f"{API}/{path}", as_=OPERATOR)).json[
            path
        ]
        return told

    added = await console.post(
        f"{API}/budgets", {"name": "crew", "amount": "7", "period": "day"}, as_=OPERATOR, key="crew"
    )
    await go(page, "keys?new=1")
    await dialog.get_by_label("Name").fill("own")
    await dialog.get_by_label("Budget", exact=True).select_option("its own, each week")
    await dialog.get_by_label("Its own budget").fill("3")
    await dialog.get_by_role("button", name="Create key").click()
    await page.get_by_role("button", name="I stored it").click()
    await wait_for_title(page, "Keys")
    (row,) = [one for one in await read_table(page, "Keys") if one["Name"].startswith("own")]
    assert row["Budget, USD"] == "0.00"
    assert await page.get_by_text("of 3.00 a week").is_visible()
    await page.get_by_role("button", name="Edit own").click()
    await dialog.get_by_label("Its own budget").fill("4")
    await submit("Save")
    await page.get_by_text("of 4.00 a week").wait_for()
    (key,) = [one for one in await read("keys") if one["name"] == "own"]
    assert isinstance(key["budget"], dict)
    assert (key["budget"]["amount"], key["budget"]["period"]) == ("4.00", "week")
    await page.get_by_role("button", name="Edit own").click()
    await dialog.get_by_label("Budget", exact=True).select_option(str(added.json["id"]))
    await submit("Save")
    await page.get_by_text("of 7.00 a day").wait_for()
    (row,) = await read_table(page, "Budgets")
    assert (row["Name"], row["Keys"], row["Remaining, USD"]) == ("crew", "1", "7.00")
    await page.get_by_role("button", name="Remove the budget crew").click()
    with site.witness.expecting(409):
        await dialog.get_by_role("button", name="Remove budget").click()
        assert "1 key spends from" in await dialog.get_by_role("alert").inner_text()
    await dialog.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Edit the budget crew").click()
    await dialog.get_by_label("Amount, USD").fill("9.5")
    await dialog.get_by_label("Period").select_option("month")
    await submit("Save")
    await page.get_by_text("of 9.50 a month").wait_for()
    (budget,) = await read("budgets")
    assert (budget["amount"], budget["period"]) == ("9.50", "month")
    await go(page, f"accounts/{OPERATOR}")
    await page.get_by_role("button", name="Add a budget").click()
    await dialog.get_by_label("Name").fill("second")
    await dialog.get_by_label("Amount, USD").fill("1")
    await submit("Add budget")
    assert [one["name"] for one in await read("budgets")] == ["crew", "second"]
