"""Tests of the way to another provider and back."""
