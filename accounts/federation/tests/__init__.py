"""Tests of signing in with another provider."""
