"""Tests of how providers and refusals are shown."""
