"""The kinds of providers: one module each knows how its provider is found and how its answer is read."""
