"""The version of the tables and functions, and those that are migrated to it. Needs no driver."""

from __future__ import annotations

from typing import Final

VERSION: Final = 6
"""The version of the tables and functions, kept in `schema_version`."""
UPGRADES: Final = {2: "from_2.sql", 3: "from_3.sql", 4: "from_4.sql", 5: "from_5.sql"}
"""Scripts by the version that they upgrade to the next one. They stay: databases from 2 on are upgraded in one step."""
COMMIT: Final = "b78270d790"
"""The last commit of version 2, before there were releases. Its program upgrades version 1."""
