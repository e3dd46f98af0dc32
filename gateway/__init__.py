"""An LLM gateway: keys, balances and an exact ledger in front of several upstream providers."""
