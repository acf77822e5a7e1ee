"""Mutants: small changes of security-relevant lines, each of which some test must notice.

The folder ``subjects`` says what they are, ``__main__`` applies them. It is run by hand (``make mutants``), not in the
gate.
"""
