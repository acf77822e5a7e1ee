"""``python -m perf.limits``: what slow, greedy and malformed clients can do to a server, and at what price."""
