"""Failover of PostgreSQL and Redis under load, judged by what clients were told."""
