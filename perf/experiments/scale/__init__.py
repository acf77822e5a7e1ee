"""The same operations on 1,000 to 1,000,000 people. See ``experiment``."""
