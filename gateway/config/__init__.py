"""Read gateway.toml into frozen records, checked as a whole.

    settings   the table of all keys: reader, meaning, default
    records    the configuration as records
    load       makes the records; the rules that involve several keys
    prices     the prices of a model, and their rules
    values     readers of values with special rules: addresses, headers, routes, secrets
    reader     reads TOML into typed values; errors name the place and the rule

May import: the leaves, `dialects` (for the names of what changes a bill).
"""

from gateway.config.load import load_config as load_config
from gateway.config.reader import ConfigError as ConfigError
from gateway.config.records import Billing as Billing
from gateway.config.records import Config as Config
from gateway.config.records import Limits as Limits
from gateway.config.records import Model as Model
from gateway.config.records import Provider as Provider
from gateway.config.records import Route as Route
from gateway.config.records import Server as Server
from gateway.config.records import Storage as Storage
from gateway.config.settings import SETTINGS as SETTINGS
from gateway.config.values import Network as Network
