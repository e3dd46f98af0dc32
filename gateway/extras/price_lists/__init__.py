"""`price check` and `price propose`: the prices of gateway.toml beside a list that others publish.

Without it prices are compared by hand; what calls cost does not change.

verbs    the two commands
compare  gateway.toml beside a list: what differs
propose  the prices of the list as TOML to paste
lists    opens a list of either format
genai    genai-prices' format
litellm  LiteLLM's format
entries  the prices of a model in a list; names of providers and models there
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra(words={"price": "Compare the prices with a list that others publish."})
