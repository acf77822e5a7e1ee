"""django-cachalot: which queries it may answer, its levels and transactions, and writes that it does not see."""

from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model
from django.db.models.sql.compiler import SQLCompiler
from django.db.transaction import Atomic

from ironauth.infrastructure.db.unit_of_work import is_pool_thread


def query_key(compiler: SQLCompiler) -> Any:
    """Return cachalot's key of a query: of the admin lane's, and only of those that may be kept.

    Cachalot's own key compiles every query a second time before it asks whether the table may be cached, and an answer
    found in Redis costs more than the database's own (measured: PUT of a role 10 ms with it, of which 4 ms were its
    own).

    Raises:
        UncachableQuery: The query is not to be cached.
    """
    from cachalot.utils import UncachableQuery, get_query_cache_key  # noqa: PLC0415 - with Redis only

    model = compiler.query.model
    if (
        model is None  # as in the check of a constraint
        or is_pool_thread()
        or model._meta.db_table not in settings.CACHALOT_ONLY_CACHABLE_TABLES  # noqa: SLF001 - documented by Django
    ):
        raise UncachableQuery
    return get_query_cache_key(compiler)


def close_levels_of_failed_transactions() -> None:
    """Have a level closed when its transaction cannot begin; call it once, before django-cachalot is set up.

    Cachalot opens a level before a transaction begins, and closes it only when the transaction ends. One that could not
    begin (the file is locked, the server is away) left its level behind for as long as the thread lives: what the
    thread wrote from then on was never made known to the shared cache, and after 500 of them (recursion) it could write
    no role at all.
    """
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


def table_changed(model: type[Model]) -> None:
    """Tell cachalot of a compiled query that writes the table; it watches the ORM's own compilers only.

    From the present transaction's commit on nothing is kept that was read from this table. Does nothing without Redis.

    Args:
        model: Whose table it is.
    """
    if apps.is_installed("cachalot"):
        from cachalot.api import invalidate  # noqa: PLC0415 - with Redis only

        invalidate(model, cache_alias=settings.CACHALOT_CACHE, db_alias=DEFAULT_DB_ALIAS)
