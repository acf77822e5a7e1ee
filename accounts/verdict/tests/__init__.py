"""Tests of the verdict on an account."""
