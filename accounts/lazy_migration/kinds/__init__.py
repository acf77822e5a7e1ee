"""The kinds of old systems: one module each knows how its system judges a password and describes a person."""
