"""What can go wrong with an act on a person."""

from ironauth.infrastructure.core.errors import Conflict


class NothingToDo(Conflict):
    """The act would change nothing about this account, or it is being deleted."""

    code = "nothing_to_do"
    title = "Nothing to do"
    detail = "This act would change nothing about this account as it is now, or the account is being deleted."
