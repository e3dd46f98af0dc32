"""Tests of providers' keys that change."""
