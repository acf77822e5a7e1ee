"""Measurements of IronAuth; docs/performance/laboratory.md says how to run and read them. Nothing else imports this."""
