"""What makes a client's document refused."""

from tokens.clients.fetched.errors import FetchRefused


class DocumentRefused(FetchRefused):
    """The document cannot be used; the text says why in a word or two, for the log, and repeats nothing of it."""
