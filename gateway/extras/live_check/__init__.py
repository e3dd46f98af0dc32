"""`check --live`: asks each provider for its list of models before anybody depends on it.

Without it `check` still reads the file, but a wrong address, key or model of a provider is noticed at the first
request.

verbs       `check` with this option
model_list  a look at a provider's list of models
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra(words={"check": ""})
