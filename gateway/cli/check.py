"""`check`: summarise the configuration, warn of its prices, and look at its providers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from gateway.admin.fields import Fields, describe
from gateway.admin.views import describe_limits
from gateway.base import money
from gateway.base.addresses import join_address
from gateway.base.ids import find_last4
from gateway.base.prices import BillTerms, PriceList, PriceRule, describe_rules
from gateway.base.process import ExitCode
from gateway.base.times import unix_ms
from gateway.base.usage import LEAST_TOKENS_PER_FILE
from gateway.cli.arguments import render, render_fields, render_table
from gateway.cli.command import Command
from gateway.cli.verbs import flag, verb
from gateway.config.load import load_config
from gateway.config.prices import SECONDS, find_minute_nano
from gateway.config.reader import quote_key
from gateway.config.records import Config, Model, Provider, Server
from gateway.config.secrets import warn_of_literals
from gateway.extension import find_extras
from gateway.ledger.key_records import Terms
from gateway.ledger.opening import check_ledger
from gateway.ledger.records import LedgerError

if TYPE_CHECKING:
    from gateway.upstream.model_list import Finding

_PRICES: Final = {
    "input": "INPUT",
    "cached_input": "CACHED",
    "cache_write": "CACHE WRITE",
    "cache_write_1h": "FOR 1 H",
    "output": "OUTPUT",
    "request": "REQUEST",
    "web_search": "SEARCHES",
    "audio_input": "AUDIO",
    "image_input": "IMAGES",
    "audio_output": "AUDIO OUT",
    "image_output": "IMAGES OUT",
}
"""The column titles of the prices."""
ANY_HOST: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not bound


@verb(
    "check",
    "check",
    "check --live",
    "check --json --config /etc/gateway.toml",
    flag(
        "--live",
        "also ask each provider for its list of models, and say what is wrong;"
        f" exits {ExitCode.FAILED} if one cannot be used",
    ),
    load=load_config,
)
def check(command: Command, *, live: bool) -> int:
    config = fetch_keys(command.config)
    findings = look(config) if live else []
    summary = describe_config(config)
    page = page_config(config, summary)
    if live:
        summary["live"] = [{**asdict(one), "usable": one.is_usable} for one in findings]
        page = f"{page}\n\n{page_findings(findings)}"
    command.show(summary, page)
    for warning in (
        *(f"Model {model} is off: {lack}." for model, lack in config.lacking.items()),
        *warn_of_no_model(command.config),
        *list_losses(command.config),
        *list_conflicts(command.config),
        *warn_of_exposure(command.config.server),
    ):
        command.say(warning)
    if readable := warn_of_literals(command.config.path, command.config.literals):
        command.say(f"Warning: {readable}")
    unusable = [
        one.name
        for one in config.providers.values()
        if one.lacking != command.config.providers[one.name].lacking
    ]
    unusable += [one.provider for one in findings if not one.is_usable]
    if unusable:
        command.say(f"Not usable as they are set: {', '.join(dict.fromkeys(unusable))}.")
    is_served, obstacle = look_at_start(command.config)
    if is_served:
        command.say(
            "This is by the environment of this shell. The gateway that serves now has the one of"
            " its start: `reload` and the console say which providers are off there."
        )
    # A problem that prevents `serve` from starting outweighs an unusable provider.
    if obstacle:
        command.say(f"`serve` cannot start: {obstacle}")
        return ExitCode.UNAVAILABLE
    return ExitCode.FAILED if unusable else ExitCode.OK


def fetch_keys(config: Config) -> Config:
    """Return the configuration with the keys that extras find while the gateway serves."""
    for extra in find_extras().values():
        if extra.fetch_keys is not None:
            config = extra.fetch_keys(config)
    return config


def mask_keys(secrets: Sequence[str]) -> str:
    """Return the last characters of a provider's keys, which distinguish them; "" if there is none."""
    return ", ".join(f"…{find_last4(secret) or ''}" for secret in secrets)


def _state(provider: Provider) -> str:
    if provider.off is not None:
        return f"off: {provider.off}"
    return "; ".join(("on", *(f"a key is missing: {reason}" for reason in provider.lacking)))


_PROVIDER: Final = Fields[Provider](
    *("name", "dialect"),
    ("base_url", lambda one: one.base_url or None),
    ("key", lambda one: mask_keys(one.api_keys) or None),
    ("on", lambda one: one.off is None),
    ("off_because", "off"),
    table=(("PROVIDER", "name"), "dialect", "key", ("STATE", _state)),
)


def describe_config(config: Config) -> dict[str, object]:
    """Return the summary as JSON for tools."""
    return {
        "config": str(config.path),
        "listen": join_address(config.server.host, config.server.port),
        "database": str(config.storage.location),
        "currency": config.billing.currency,
        "limits": asdict(config.limits),
        "account_in_flight": config.account_limits.concurrency,
        "providers": [_PROVIDER.describe(one) for one in config.providers.values()],
        "models": [_describe_model(config, model) for model in config.models.values()],
    }


def _describe_model(config: Config, model: Model) -> dict[str, object]:
    return {
        **describe(model, "id", "aliases", "owned_by", "kind"),
        "on": model.id in config.active_models(),
        "routes": [str(route) for route in model.routes],
        **describe(model, "max_input_tokens", "max_output_tokens", "free"),
        "price": money.describe_price(model.prices.base, for_operator=True),
        "price_when": describe_rules(model.prices, for_operator=True),
        "allow": sorted(model.allow),
        **money.describe_amount("worst_overdraft", find_worst_overdraft_nano(config, model)),
        "worst_factor": find_worst_factor(config, model),
    }


def find_worst_overdraft_nano(config: Config, model: Model) -> int:
    """Return how far below zero the requests of one account to a model may take its balance.

    All requests are assumed to use all they may. Holds and possible costs beyond them leave money for
    all requests but the last; with `full_hold_below = 0` nothing is left for output beyond the holds.
    """
    billing, output = config.billing, model.max_output_tokens
    last_nano = find_most_nano(model, model.max_input_tokens, output)
    if billing.full_hold_below:
        return last_nano
    prices = (model.prices.base, *(rule.price for rule in model.prices.rules))
    unheld = max(output - billing.hold_output_tokens, 0) * max(price.output for price in prices)
    others = (config.account_limits.concurrency or config.server.max_in_flight) - 1
    return last_nano + others * -(-unheld // money.MILLION)


def find_most_nano(model: Model, most_input: int, output: int) -> int:
    """Return the most that so many tokens can cost: in the dearest class and medium, by any rule."""
    uses = [
        money.Tokens(cache_write=most_input, output=output),
        money.Tokens(cache_write_1h=most_input, output=output),
    ]
    uses += [
        money.Tokens(most_input, output=output, media=media)
        for heard in ("audio_input", "image_input")
        for made in ("audio_output", "image_output")
        for media in (money.NONE, {heard: most_input, made: output})
    ]
    prices = (model.prices.base, *(rule.price for rule in model.prices.rules))
    return max(money.compute_cost_nano(use, price) for use in uses for price in prices)


def find_worst_factor(config: Config, model: Model) -> int:
    """Return how many times its usual hold a request may cost, rounded up.

    The usual hold is that of the smallest file or of a minute, without a limit of the caller's. Speech
    costs what is held for its text.
    """
    if model.unit == "character" or model.free:
        return 1
    usual_input = SECONDS if model.unit == "second" else LEAST_TOKENS_PER_FILE
    held = min(config.billing.hold_output_tokens, model.max_output_tokens)
    usual_nano = find_most_nano(model, min(usual_input, model.max_input_tokens), held)
    most_nano = find_most_nano(model, model.max_input_tokens, model.max_output_tokens)
    return -(-most_nano // usual_nano) if usual_nano else 1


def page_config(config: Config, summary: Mapping[str, object]) -> str:
    """Return the summary as text for people."""
    fields = [(name, str(summary[name])) for name in ("config", "listen", "database", "currency")]
    for name, limits in (("keys", config.limits), ("accounts", config.account_limits)):
        fields.append((name, f"by default {describe_limits(Terms(None, **asdict(limits)))}"))
    parts = [render_fields(fields)]
    if config.providers:
        parts.append(render(_PROVIDER.columns, config.providers.values()))
    if config.models:
        parts.append(_table_models(config))
    return "\n\n".join(parts)


def _table_models(config: Config) -> str:
    prices = [one.prices for one in config.models.values()]
    told = [one.base for one in prices] + [rule.price for one in prices for rule in one.rules]
    names = [
        n
        for n in money.PRICES
        if n not in money.MEDIA or any(getattr(one, n) is not None for one in told)
    ]
    prices_titles = (f">{_PRICES[name]}" for name in names)
    titles = ("MODEL", "KIND", "STATE", *prices_titles, ">OVERDRAFT", ">× HOLD", "ROUTES")
    rows = [row for model in config.models.values() for row in _model_rows(config, model, names)]
    heading = (
        f"Prices in {config.billing.currency} per million tokens, per request, and per thousand searches\n"
        "Overdraft: what the requests of an account may cost beyond its balance, all at once\n"
        f"× hold: how many times its usual hold one request may cost{_tell_full(config)}"
    )
    return f"{heading}\n{render_table(titles, rows)}"


def _tell_full(config: Config) -> str:
    times = config.billing.full_hold_below
    return f"; while less than {times} times that cost is left, all of it is held" if times else ""


def _model_rows(config: Config, model: Model, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Make the row of a model, and those below it for aliases, rules of its prices and tools."""
    state = "on" if model.id in config.active_models() else "off"
    routes = ", ".join(map(str, model.routes))
    nothing = "-" * (len(names) - 1)
    cells = ("free", *nothing) if model.free else _price_cells(model.prices.base, names)
    worst = ("-", "-")
    if not model.free:
        overdraft = money.format_amount(find_worst_overdraft_nano(config, model))
        worst = (overdraft, str(find_worst_factor(config, model)))
    yield (model.id, model.kind, state, *cells, *worst, routes)

    def below(said: str, cells: Sequence[str] = ("-", *nothing)) -> tuple[str, ...]:
        return ("", "", "", *cells, "", "", said)

    if model.aliases:
        yield below(f"also called: {', '.join(model.aliases)}")
    for rule in model.prices.rules:
        cells = _price_cells(rule.price, names)
        yield below(f"when {rule.why}{_factor(rule.price)}", cells)
    if model.unit == "second":
        minute = money.format_amount(find_minute_nano(model.prices.base))
        yield below(f"per minute: {minute}; its input is seconds")
    if tools := model.prices.base.tools:
        told = ", ".join(f"{name} {money.format_amount(nano)}" for name, nano in tools.items())
        yield below(f"per call: {told}")
    if factor := _factor(model.prices.base):
        yield below(factor.removeprefix(": "))


def _price_cells(price: money.Price, names: Sequence[str]) -> tuple[str, ...]:
    found = (getattr(price, name) for name in names)
    return tuple("-" if nano is None else money.format_amount(nano) for nano in found)


def _factor(price: money.Price) -> str:
    if price.reported is None:
        return ""
    return (
        f": {money.format_factor(price.reported)} × what the provider says it charged, if it does"
    )


def warn_of_no_model(config: Config) -> Iterator[str]:
    if not config.active_models():
        yield (
            "No model is on, so callers get an empty list of models. Set a provider's key to"
            " turn its models on."
        )


def warn_of_exposure(server: Server) -> Iterator[str]:
    """Yield a warning if the gateway listens on all addresses, and keys may travel in the clear."""
    if server.host in ANY_HOST and not (server.public_url or "").startswith("https://"):
        yield (
            f'Warning: with host = "{server.host}" everybody who can reach this machine can reach the'
            " gateway, by plain http, which shows keys and prompts on the way. Put a TLS proxy in front"
            " and set public_url under [server] to its https address."
        )


def look_at_start(config: Config) -> tuple[bool, str | None]:
    """Return whether a gateway serves now, and what would keep `serve` from starting.

    The address is not looked at while a gateway serves from the database, as that one has it.
    """
    try:
        is_served = check_ledger(config.storage.location)
    except LedgerError as error:
        return False, str(error)
    from gateway.server.listener import find_listen_problem  # with asyncio, for this command alone

    return is_served, None if is_served else find_listen_problem(config.server)


def look(config: Config) -> list[Finding]:
    """Ask each provider for its list of models."""
    import asyncio

    from gateway.upstream.model_list import look_at_all  # with all that it takes to ask

    return asyncio.run(look_at_all(config))


def page_findings(findings: Sequence[Finding]) -> str:
    """Return the findings as text for people."""
    if not findings:
        return "No provider is on that could be asked."
    rows = [(one.provider, one.url, one.words) for one in findings]
    return render_table(("PROVIDER", "ASKED", "FOUND"), rows)


def list_conflicts(config: Config) -> Iterator[str]:
    """Yield a warning for each two rules that may hold at once, where the order alone decides."""
    for model in config.models.values():
        costs = ((f"cost_when at {name}", one) for name, one in model.costs.items())
        for where, prices in (("price_when", model.prices), *costs):
            for first, second in prices.find_conflicts():
                yield (
                    f"Warning: [models.{quote_key(model.id, always=True)}] {where}: the rules"
                    f" '{first.why}' and '{second.why}' may both hold for a request; the first one"
                    " applies. If that is not meant, add a rule with the conditions of both before"
                    " them."
                )


def list_losses(config: Config) -> Iterator[str]:
    """Yield a warning for each model, provider and rule with a price below its cost."""
    for model in config.models.values():
        for provider, costs in model.costs.items():
            # Rules of both sides may lead to the same warning.
            yield from dict.fromkeys(_compare(model, provider, costs))


def _compare(model: Model, provider: str, costs: PriceList) -> Iterator[str]:
    """Compare the prices of what each rule of either side is about, and of what none is."""
    for rule in (None, *model.prices.rules, *costs.rules):
        case = _satisfy(rule)
        price, cost = model.prices.find(*case).price, costs.find(*case).price
        ours, theirs = _list_amounts(price, cost), _list_amounts(cost, price)
        below = [
            f"{name} {money.format_amount(amount)} < {money.format_amount(theirs.get(name, 0))}"
            for name, amount in ours.items()
            if amount < theirs.get(name, 0)
        ]
        if price.reported is not None and price.reported < (bill := cost.reported or money.MILLION):
            below.append(
                f"reported {money.format_factor(price.reported)} < {money.format_factor(bill)}"
            )
        if below:
            when = f" when {rule.why}" if rule else ""
            yield (
                f"Warning: [models.{quote_key(model.id, always=True)}]: its price is below its cost"
                f" at {provider}{when}: {', '.join(below)}."
            )


def _list_amounts(price: money.Price, other: money.Price) -> dict[str, int]:
    """Return what applies by name. Where the other one alone has a price of media, other tokens' does."""
    amounts: dict[str, int] = {}
    for name in money.PRICES:
        if name not in money.MEDIA or (getattr(price, name), getattr(other, name)) != (None, None):
            own: int | None = getattr(price, name)
            amounts[name] = getattr(price, money.MEDIA[name]) if own is None else own
    return {**amounts, **price.tools}


def _satisfy(rule: PriceRule | None) -> tuple[money.Tokens, BillTerms, int]:
    """Make a request that a rule applies to, or one that is about nothing special, and its time."""
    now_ms = unix_ms()
    if rule is None:
        return money.Tokens(), BillTerms(), now_ms
    above = 0 if rule.input_above is None else rule.input_above + 1
    terms = BillTerms(rule.service_tier or "", rule.speed or "", rule.inference_geo or "")
    return money.Tokens(input=above), terms, rule.window.find_time_ms(now_ms)
