"""What makes a client's document refused."""


class DocumentRefused(Exception):
    """The document cannot be used; the text says why in a word or two, for the log, and repeats nothing of it."""
