"""What makes an answer of a client's server one that cannot be used."""


class FetchRefused(Exception):
    """The answer cannot be used; the text says why in a word or two, for the log, and repeats nothing of it."""
