"""`price check` and `price propose`: compare the prices of gateway.toml with a published list.

Without this extra, prices are compared by hand. It never changes a price.

verbs    the two commands
compare  the differences between gateway.toml and a list
propose  the prices of the list as TOML to paste
lists    opens a list of either format
genai    genai-prices' format
litellm  LiteLLM's format
entries  the prices of a model in a list; names of providers and models there
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra(first_words={"price": "Compare the prices with a list that others publish."})
