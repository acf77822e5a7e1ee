"""Which queries django-cachalot may answer: the admin lane's, and only those it could keep anyway.

Its own key compiles every query a second time before it asks whether the table may be cached, and an answer found in
Redis costs more than the database's own (measured: PUT of a role 10 ms with it, of which 4 ms were its own).
"""

from typing import Any

from cachalot.utils import UncachableQuery, get_query_cache_key
from django.conf import settings
from django.db.models.sql.compiler import SQLCompiler

from ironauth.infrastructure.db.unit_of_work import is_pool_thread


def query_key(compiler: SQLCompiler) -> Any:
    """Return cachalot's key of a query. Raises ``UncachableQuery`` for one that is not to be cached."""
    model = compiler.query.model
    if (
        model is None  # as in the check of a constraint
        or is_pool_thread()
        or model._meta.db_table not in settings.CACHALOT_ONLY_CACHABLE_TABLES  # noqa: SLF001 - documented by Django
    ):
        raise UncachableQuery
    return get_query_cache_key(compiler)
