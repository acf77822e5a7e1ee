"""The endpoint benchmark: what it measures in which rounds, and its report. See ``__main__``."""
