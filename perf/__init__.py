"""Measurements of IronAuth: how to run and read them is in README.md. Nothing else imports this package."""
