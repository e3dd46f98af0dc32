"""Read gateway.toml into frozen records, checked as a whole.

    settings   the table of all keys: reader, meaning, default
    model_settings   the part of models and prices
    records    the configuration as records
    load       makes the records; the rules that involve several keys; what a reload changes
    providers  the providers: their addresses, their keys resolved
    storage    where the ledger is, and where alerts go, with secrets looked up
    prices     the prices of a model, and their rules
    values     readers of values with special rules: addresses, headers, routes
    secrets    where a secret is, and its look-up
    reader     reads TOML into typed values; errors name the place and the rule, all at once

May import: the leaves, `dialects` (for the names of what changes a bill), `ledger` (for locations).
"""

from gateway.config.load import describe_changes as describe_changes
from gateway.config.load import keep_fixed as keep_fixed
from gateway.config.load import load_config as load_config
from gateway.config.load import load_storage as load_storage
from gateway.config.model_settings import MAX_PRICE as MAX_PRICE
from gateway.config.prices import INHERITED as INHERITED
from gateway.config.prices import drop_defaults as drop_defaults
from gateway.config.prices import fill_defaults as fill_defaults
from gateway.config.reader import ConfigError as ConfigError
from gateway.config.reader import quote_key as quote_key
from gateway.config.reader import show as show
from gateway.config.records import Alerts as Alerts
from gateway.config.records import Billing as Billing
from gateway.config.records import Config as Config
from gateway.config.records import Limits as Limits
from gateway.config.records import Model as Model
from gateway.config.records import Provider as Provider
from gateway.config.records import Reload as Reload
from gateway.config.records import Route as Route
from gateway.config.records import Server as Server
from gateway.config.records import Storage as Storage
from gateway.config.secrets import warn_of_literals as warn_of_literals
from gateway.config.settings import SETTINGS as SETTINGS
from gateway.config.values import Network as Network
from gateway.config.values import check_webhook as check_webhook
