"""Recovery codes."""
