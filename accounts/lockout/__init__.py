"""Limits on guessing passwords and codes, and on what may be asked for often."""
