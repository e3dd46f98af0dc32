"""Price lists that others publish, compared with gateway.toml. Nothing is fetched or applied.

    file        opens a list: recognises its format, names what is wrong with it
    records     an entry of a list; reads its amounts exactly
    genai       the JSON of genai-prices
    litellm     LiteLLM's map of models
    matching    finds the entry of a route: its provider by host, its model by name and date
    comparison  what agrees, what drifts, what no list has
    proposal    TOML to paste, with the old prices in comments

May import: the leaves, `config`.
"""

from __future__ import annotations

from gateway.price_lists.comparison import Comparison as Comparison
from gateway.price_lists.comparison import Difference as Difference
from gateway.price_lists.comparison import compare as compare
from gateway.price_lists.file import open_list as open_list
from gateway.price_lists.proposal import describe_difference as describe_difference
from gateway.price_lists.proposal import propose as propose
from gateway.price_lists.records import PriceListError as PriceListError
