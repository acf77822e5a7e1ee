"""Migrations leave the tables as the previous release knows them: it serves on while they are made, and after."""

from collections.abc import Iterable

import pytest
from django.db import models
from django.db.migrations import AddField, CreateModel, DeleteModel, Migration, RemoveField, RenameField
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import AlterModelTable, RenameModel
from django.db.migrations.operations.base import Operation
from django.db.migrations.operations.fields import FieldOperation
from django.db.migrations.operations.models import IndexOperation
from django.db.migrations.state import ProjectState
from django.db.models import NOT_PROVIDED

OURS = ("accounts", "infrastructure", "tokens")
#: What takes something away that the previous release asks for. It is left in one release and dropped in the next.
LOSSES = (AlterModelTable, DeleteModel, RemoveField, RenameField, RenameModel)

#: Made before the rule. On a busy machine requests waited longer than their 1.5 s for the sessions that 0006 alters.
LONG = {"accounts.0002_roles_and_words", "accounts.0008_deletion", "tokens.0006_oauth", "tokens.0008_key_families"}


def _locking(found: Iterable[Migration]) -> list[str]:
    """Return migrations that alter a table of before and make others: Postgres keeps it locked until all is done."""
    told = []
    for migration in found:
        made = {operation.name_lower for operation in migration.operations if isinstance(operation, CreateModel)}
        altered = {
            operation.model_name_lower
            for operation in migration.operations
            if isinstance(operation, FieldOperation | IndexOperation)
        }
        told += [f"{migration}"] if made and altered - made else []
    return told


def _breaking(found: Iterable[Migration], now: ProjectState) -> list[str]:
    """Return what the previous release would trip over: a loss, and a column that its inserts leave without a value."""
    told = []
    for migration in found:
        made = {operation.name_lower for operation in migration.operations if isinstance(operation, CreateModel)}
        for operation in migration.operations:
            if isinstance(operation, LOSSES):
                told.append(f"{migration}: {operation.describe()}")
            if isinstance(operation, AddField) and operation.model_name_lower not in made:
                field = now.models[migration.app_label, operation.model_name_lower].fields[operation.name]
                if not (field.null or field.many_to_many or field.db_default is not NOT_PROVIDED):
                    told.append(f"{migration}: {operation.describe()} without null or db_default")
    return told


def test_no_migration_breaks_the_release_before() -> None:
    """Nothing is taken away, new columns have a value of the database's own, no table is locked for several changes.

    That a column or a constraint became stricter is found by ``make previous``, not here.
    """
    loader = MigrationLoader(None, ignore_no_migrations=True)
    found = [migration for (app, _), migration in sorted(loader.graph.nodes.items()) if app in OURS]
    assert {migration.app_label for migration in found} == set(OURS)
    assert _breaking(found, loader.project_state()) == []
    assert set(_locking(found)) == LONG


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (AddField("user", "shoe_size", models.IntegerField(default=42)), 1),
        (AddField("user", "shoe_size", models.IntegerField(default=42, db_default=42)), 0),
        (AddField("user", "shoe_size", models.IntegerField(null=True)), 0),
        (RemoveField("user", "name"), 1),
        (RenameField("user", "name", "called"), 1),
        (DeleteModel("EmailToken"), 1),
    ],
)
def test_what_would_break_it_is_found(operation: Operation, said: int) -> None:
    """A default of Python's own is not in the insert of code that does not know the column."""
    state = MigrationLoader(None, ignore_no_migrations=True).project_state()
    migration = type("More", (Migration,), {"operations": [operation]})("0099_more", "accounts")
    assert len(_breaking([migration], migration.mutate_state(state))) == said
