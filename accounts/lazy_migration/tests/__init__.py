"""Tests of lazy migration."""
