"""Tells django-cachalot of what fixed queries write: it watches the ORM's own compilers only."""

from django.apps import apps
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model


def table_changed(model: type[Model]) -> None:
    """Have nothing kept that was read from this table, from the present transaction's commit on; free without Redis."""
    if apps.is_installed("cachalot"):
        from cachalot.api import invalidate  # noqa: PLC0415 - with Redis only

        invalidate(model, cache_alias=settings.CACHALOT_CACHE, db_alias=DEFAULT_DB_ALIAS)
