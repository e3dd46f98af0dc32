"""Tasks on the pages: limits, roles and budgets; why a call failed; money moves once."""

from __future__ import annotations

import pytest
from playwright.async_api import Route

from tests.browser.kit import Site, download, go, open_call, read_table, settle, wait_for_title
from tests.console.kit import API, HOLDER, OPERATOR, OTHER, Console
from tests.support.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


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


async def test_an_operator_manages_a_holders_keys_on_the_page(site: Site, console: Console) -> None:
    """A key is made, edited and rotated for the holder; it is shown once, and there is no trial."""
    page = await site.open(f"accounts/{OTHER}", OPERATOR)
    dialog = page.get_by_role("dialog")
    await page.get_by_role("button", name="Create a key").click()
    await dialog.get_by_label("Name").fill("theirs")
    await dialog.get_by_role("button", name="Create key").click()
    await wait_for_title(page, "Key created")
    secret = await page.get_by_label("Key", exact=True).input_value()
    assert (await console.complete(secret)).status == 200
    text = await page.inner_text("main")
    assert f"for {OTHER} alone" in text
    assert "Try it" not in text
    await page.get_by_role("button", name="I stored it").click()
    await wait_for_title(page, OTHER)
    assert secret not in await page.content()
    await page.get_by_role("button", name="Edit theirs").click()
    await dialog.get_by_label("Cap").fill("2.5")
    await dialog.get_by_role("button", name="Save").click()
    await page.get_by_text("of 2.50").wait_for()
    await page.get_by_role("button", name="Rotate theirs").click()
    await dialog.get_by_label("The old key").select_option("stops now")
    await dialog.get_by_role("button", name="Rotate key").click()
    await wait_for_title(page, "Key rotated")
    assert (await console.complete(secret)).status == 401
    (key,) = (await console.get(f"{API}/keys", as_=OTHER)).json["keys"]
    assert (key["name"], key["cap"]) == ("theirs", "2.50")


async def make_call(console: Console, name: str) -> str:
    made = await console.post(f"{API}/keys", {"name": "support"}, as_=name)
    reply = await console.complete(made.json["secret"])
    return reply.headers["x-request-id"]


async def test_a_movement_leads_to_its_call(site: Site, console: Console) -> None:
    """From an account's page, and from the holder's own billing."""
    request_id = await make_call(console, OTHER)
    for who, path in ((OPERATOR, f"accounts/{OTHER}"), (OTHER, "billing")):
        page = await site.open(path, who)
        await page.get_by_role("link", name=request_id).click()
        await wait_for_title(page, "Call")
        text = await page.inner_text("main")
        assert request_id in text
        assert "The reply is complete." in text
        assert page.url.endswith(f"/console/activity/{request_id}")


async def test_operators_read_and_print_the_statement(site: Site, console: Console) -> None:
    """The statement's closings are the balances; on paper there is neither menu nor filter."""
    await make_call(console, OTHER)
    accounts = (await console.get(f"{API}/accounts", as_=OPERATOR)).json["accounts"]
    page = await site.open("billing")
    rows = await read_table(page, "Statement")
    closings = {row["Account"]: row["Closing, USD"] for row in rows[:-1]}
    assert closings == {one["name"]: one["balance"] for one in accounts}
    await page.get_by_label("Account", exact=True).fill(OTHER)
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**account={OTHER}**")
    await settle(page)
    await page.get_by_label("Movements", exact=True).select_option("charge")
    await page.wait_for_url("**kind=charge**")
    await settle(page)
    moves = await read_table(page, "Movements of all accounts")
    assert {(row["Account"], row["Kind"]) for row in moves} == {(OTHER, "charge")}
    csv = await download(page, "Movements as CSV")
    assert len(csv.splitlines()) == 1 + len(moves)
    assert (await download(page, "Statement as CSV")).splitlines()[1].startswith(f"{OTHER},")
    await page.emulate_media(media="print")
    assert await page.get_by_role("heading", name="Statement").is_visible()
    for hidden in ("#nav", ".filters", ".actions", ".ranges", ".balance"):
        assert not await page.locator(hidden).first.is_visible(), hidden


async def test_costs_are_grouped_and_drawn(site: Site, console: Console) -> None:
    await make_call(console, OTHER)
    page = await site.open(f"costs?account={OTHER}")
    await page.get_by_label("Table by").select_option("provider")
    await page.wait_for_url("**by=provider**")
    await settle(page)
    row, total = await read_table(page, "What providers bill, by provider")
    assert (row.pop("Provider"), total.pop("Provider")) == ("demo", "Total")
    assert row == total
    assert await page.locator(".legend span").all_inner_texts() == [
        "Provider’s cost, covered",
        "Margin",
    ]
    assert (await download(page, "CSV")).splitlines()[1].startswith("demo,")


async def test_calls_are_filtered_by_account_and_outcome(site: Site, console: Console) -> None:
    request_id = await make_call(console, HOLDER)
    page = await site.open("activity")
    await page.get_by_label("Account", exact=True).fill(HOLDER)
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**account={HOLDER}**")
    await page.get_by_role("link", name=request_id).wait_for()
    async with page.expect_response("**/activity?*outcome=failed*"):
        await page.get_by_label("Outcome").select_option("failed")
    await page.get_by_text("No calls match these filters.").wait_for()


async def test_who_has_no_such_call_is_told_why(site: Site, console: Console) -> None:
    own_id, request_id = await make_call(console, HOLDER), await make_call(console, OTHER)
    page = await site.open("", HOLDER)
    with site.witness.expecting(404):
        await go(page, f"activity/{request_id}")
    text = await page.inner_text("main")
    assert "There is no call of that request id" in text
    assert "refused in the last 7 days" in text
    assert await open_call(page) == own_id


async def test_a_search_finds_a_refused_request(site: Site, console: Console) -> None:
    """For its holder, and by the link in the list of refusals for operators."""
    made = await console.post(f"{API}/keys", {"name": "support"}, as_=HOLDER)
    refused = await console.complete(made.json["secret"], model="no/such")
    request_id = refused.headers["x-request-id"]

    def is_kept() -> bool:
        with console.open_books() as books:
            latest = books.observations.read_refused(None, 0, 1)
        return [one.request_id for one in latest] == [request_id]

    await until(is_kept, "the refusal")
    page = await site.open("activity", HOLDER)
    await page.get_by_label("Request id").fill(f" {request_id} ")
    await page.keyboard.press("Enter")
    await page.get_by_text("model_not_found").wait_for()
    text = await page.inner_text("main")
    assert "refused this request" in text
    assert "no/such" in text
    page = await site.open("refusals", OPERATOR)
    await page.get_by_role("link", name=request_id).click()
    await wait_for_title(page, "Call")
    await page.get_by_text("no/such").wait_for()


async def make_code(console: Console, key: str) -> str:
    terms = {"amount": "5", "count": 1}
    made = await console.post(f"{API}/codes", terms, as_=OPERATOR, key=key)
    code: str = made.json["codes"][0]
    return code


async def count_moves(console: Console, kind: str, as_: str = HOLDER) -> int:
    found: int = (await console.get(f"{API}/billing?kind={kind}", as_=as_)).json["count"]
    return found


async def lose(route: Route) -> None:
    """Let the gateway act, and lose its reply."""
    await route.fetch()
    await route.abort("connectionreset")


async def test_a_code_whose_answer_was_lost_is_redeemed_once(site: Site, console: Console) -> None:
    """The gateway redeemed the code, but the reply was lost: the second try gets the same reply."""
    before = await count_moves(console, "code")
    page = await site.open("billing", HOLDER)
    await page.get_by_label("Top-up code").fill(await make_code(console, "lost"))

    await page.route(f"**{API}/billing/redeem", lose, times=1)
    with site.witness.expecting(absent=True):
        await page.get_by_role("button", name="Redeem", exact=True).click()
        await page.get_by_text("The gateway does not answer").first.wait_for()
    await page.get_by_role("button", name="Redeem", exact=True).click()
    await page.get_by_text("$5.00 added.").first.wait_for()
    assert await count_moves(console, "code") == before + 1


async def test_double_click_and_refresh_credit_once(site: Site, console: Console) -> None:
    page = await site.open(f"accounts/{HOLDER}", OPERATOR)
    before = await count_moves(console, "credit")
    await page.get_by_role("button", name="Credit", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Amount, USD").fill("3")
    await dialog.get_by_label("Reason").fill("twice clicked")
    await dialog.get_by_role("button", name="Add credit").dblclick()
    await dialog.wait_for(state="detached")
    await page.get_by_text("twice clicked").wait_for()
    await page.reload()
    await settle(page)
    assert await page.get_by_text("twice clicked").count() == 1
    assert await count_moves(console, "credit") == before + 1


async def test_a_credit_whose_answer_was_lost_is_not_told_as_a_new_one(
    site: Site, console: Console
) -> None:
    before = await count_moves(console, "credit")
    page = await site.open(f"accounts/{HOLDER}", OPERATOR)
    await page.get_by_role("button", name="Credit", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Amount, USD").fill("4")
    await dialog.get_by_label("Reason").fill("lost on the way")
    await page.route(f"**{API}/accounts/*/credit", lose, times=1)
    with site.witness.expecting(absent=True):
        await dialog.get_by_role("button", name="Add credit").click()
        await page.get_by_text("The gateway does not answer").first.wait_for()
    await dialog.get_by_role("button", name="Add credit").click()
    told = page.locator(".notice", has_text="$4.00 was already posted on 2")
    await told.wait_for()
    assert "nothing was added by this one" in await told.inner_text()
    assert await count_moves(console, "credit") == before + 1
