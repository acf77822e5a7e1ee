"""The kinds of providers: one module each says how it is found and how its answer is read."""
