"""The expected usage and cost of a request: likely, and at the most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from gateway.base import usage
from gateway.base.money import MEDIA, NONE, Price, Tokens, compute_cost_nano
from gateway.base.prices import AppliedPrice, BillOptions
from gateway.config.records import Model
from gateway.dialects.wire.records import CompletionRequest, Payload


def expect_usage(request: CompletionRequest, payload: Payload, model: Model) -> usage.Expected:
    """Estimate the input from the payload, and bound the usage that a report can plausibly state."""
    options, requested, most = payload.options, request.max_tokens, model.max_output_tokens
    limit = requested if requested and requested < most else most
    if options.tool_calls:
        # Tools without a price are free, whether the provider reports them or not.
        priced = {k: n for k, n in options.tool_calls.items() if model.prices.base.has_tool(k)}
        options = replace(options, tool_calls=priced)
    most_input = model.max_input_tokens * (request.inputs.count if request.inputs else 1)
    likely_input = min(estimate_input(request, len(payload.data)), most_input)
    # What the provider's tools find is input, too.
    is_added = options.adds_input or (payload.options.tool_calls and request.inputs is None)
    more = usage.UNBOUNDED if is_added else request.more_tokens
    return usage.Expected(
        input_tokens=likely_input,
        limits=_bound_usage(most_input, most, limit, request.n),
        options=options,
        audio_tokens=request.audio_tokens,
        most_input_tokens=min(likely_input + more, most_input) if more else 0,
    )


@lru_cache(maxsize=1024)
def _bound_usage(most_input: int, most_output: int, limit: int, n: int) -> usage.UsageLimits:
    """Bound the usage of `n` choices. Cached, as the same few models and limits recur."""
    return usage.UsageLimits(
        input=min(usage.IMPLAUSIBLE_FACTOR * most_input, usage.MAX_PLAUSIBLE_TOKENS),
        output=min(usage.IMPLAUSIBLE_FACTOR * most_output * n, usage.MAX_PLAUSIBLE_TOKENS),
        estimated_output=limit * n,
    )


def estimate_input(request: CompletionRequest, sent_bytes: int) -> int:
    """Estimate the input tokens: everything that is sent is text, but for the content of files.

    Only the inputs count for a request that is not a conversation.
    """
    if request.inputs is not None:
        return request.inputs.tokens
    text_bytes = sent_bytes - request.base64_chars
    return request.file_tokens + (usage.estimate_tokens(text_bytes) if text_bytes > 0 else 0)


def expect_tokens(expected: usage.Expected, output_tokens: int, price: Price) -> Tokens:
    """Put the expected tokens into the classes that the request asks for."""
    options, audio = expected.options, min(expected.audio_tokens, expected.input_tokens)
    tokens = Tokens(audio, output=output_tokens, media=NONE)
    match options.cache:
        case "1h":
            tokens.cache_write_1h = expected.input_tokens - audio
        case "5m":
            tokens.cache_write = expected.input_tokens - audio
        case _:
            tokens.input = expected.input_tokens
    if audio or options.media:
        dearest = sorted(options.media, key=lambda name: getattr(price, name) or 0)[-1:]
        tokens.media = {"audio_input": audio, **dict.fromkeys(dearest, output_tokens)}
    return tokens


@dataclass(slots=True)
class Charge:
    """A cost and its reasons, from which an audit computes it again."""

    metered: usage.Metered
    applied: AppliedPrice
    cost_nano: int


def make_charge(metered: usage.Metered, applied: AppliedPrice) -> Charge:
    """Price the metered usage. A price that follows the provider's bill is a guess if no bill came."""
    price, bill_nano = applied.price, metered.reported_cost_nano
    if price.reported is not None and bill_nano is None:
        metered = replace(metered, estimated=True)
    cost_nano = compute_cost_nano(metered.tokens, price, metered.tool_calls, bill_nano)
    return Charge(metered, applied, cost_nano)


def expect_charge(tokens: Tokens, options: BillOptions, model: Model, at_ms: int) -> Charge:
    """Price what is expected at the most that may apply."""
    # Only the reply tells which tier and price apply, and the hold has to cover each of them.
    applied = model.prices.find_dearest(tokens, options, at_ms)
    return make_charge(usage.Metered(tokens, True, options.tool_calls), applied)


def find_most_nano(expected: usage.Expected, model: Model, at_ms: int) -> int:
    """Return the most that a request may cost: all output, and all input that its bytes do not bound."""
    output, options = expected.limits.estimated_output, expected.options
    most_input, base = expected.most_input_tokens, model.prices.base
    if not most_input:
        tokens = expect_tokens(expected, output, base)
        return expect_charge(tokens, options, model, at_ms).cost_nano
    tokens = expect_tokens(replace(expected, input_tokens=most_input), output, base)
    made = {name: n for name, n in tokens.media.items() if MEDIA[name] == "output"}
    # A file may be of any medium, whatever its part says.
    heard = ({**made, name: most_input} for name, side in MEDIA.items() if side == "input")
    uses = [tokens, *(Tokens(most_input, output=output, media=media) for media in heard)]
    return max(expect_charge(use, options, model, at_ms).cost_nano for use in uses)
