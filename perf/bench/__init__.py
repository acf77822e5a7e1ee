"""The endpoint benchmark: what it measures in which rounds, and its report as data, page and plots. See ``run``."""
