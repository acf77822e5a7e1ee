"""The load generators, closed loop and fixed rate, and what they send: sources, workloads, endpoints."""
