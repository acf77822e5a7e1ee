"""Keeps django-cachalot's levels of a thread in step with its transactions.

It opens a level before a transaction begins, and closes it only when the transaction ends. One that could not begin
(the file is locked, the server is away) left its level behind for as long as the thread lives: what the thread wrote
from then on was never made known to the shared cache, and after 500 of them (recursion) it could write no role at all.
"""

from django.db import DEFAULT_DB_ALIAS
from django.db.transaction import Atomic


def close_what_did_not_begin() -> None:
    """Have a level closed when its transaction cannot begin; call it once, before django-cachalot is set up."""
    from cachalot.cache import cachalot_caches  # noqa: PLC0415 - with Redis only

    enter = Atomic.__enter__

    def entered(self: Atomic) -> None:
        level = len(cachalot_caches.atomic_caches[self.using or DEFAULT_DB_ALIAS])
        try:
            enter(self)
        except BaseException:
            if level:  # what wraps this has opened it; switched off, it has none
                cachalot_caches.exit_atomic(self.using, commit=False)
            raise

    Atomic.__enter__ = entered  # type: ignore[method-assign]  # as django-cachalot itself does
