"""`check` with a summary of providers, models and prices; `check --live` asks each provider for its list of models.

Without it `check` still says what is wrong with the file and what may not be meant, but prices are not seen side
by side, and a wrong address, key or model of a provider is noticed at the first request.

verbs       `check` with these
pages       the summary
model_list  a look at a provider's list of models
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra(first_words={"check": ""})
