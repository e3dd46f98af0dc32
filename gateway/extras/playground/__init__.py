"""A page on which a person tries the models: a conversation by one's own key, and what each answer cost.

Without it the console has no page "Try it", and a new key is shown with its snippets alone. Nothing that is
written there is stored: the browser sends it to `/v1`, as any caller does.

    console    the models that can be tried; the page joins the console
    static     try: the page; exchange: a request and its answer; ascode: the same request as code
"""

from __future__ import annotations

from gateway.extension import Extra


def _add_to_console() -> object:
    from gateway.extras.playground.console import ADDITION

    return ADDITION


EXTRA = Extra(adds_to={"console": _add_to_console})
