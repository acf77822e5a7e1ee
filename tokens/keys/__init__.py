"""Signing keys: in memory, at rest, rotated, published."""
