"""Tests of ledgers that move."""
