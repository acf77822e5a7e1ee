"""What migrations do to a table that is in use: on Postgres without keeping its writers waiting."""

from typing import Any

from django.db.migrations import AddIndex


class AddIndexMeanwhile(AddIndex):
    """``AddIndex`` with ``CONCURRENTLY`` on Postgres: nobody waits. Its migration says ``atomic = False``.

    An attempt that broke off leaves an index that is not used. The next attempt drops it first.
    """

    atomic = False

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Create the index."""
        connection = schema_editor.connection
        model = to_state.apps.get_model(app_label, self.model_name)
        if connection.vendor != "postgresql" or connection.in_atomic_block:
            super().database_forwards(app_label, schema_editor, from_state, to_state)
        elif self.allow_migrate_model(connection.alias, model):
            schema_editor.remove_index(model, self.index, concurrently=True)
            schema_editor.add_index(model, self.index, concurrently=True)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Drop it."""
        connection = schema_editor.connection
        model = from_state.apps.get_model(app_label, self.model_name)
        if connection.vendor != "postgresql" or connection.in_atomic_block:
            super().database_backwards(app_label, schema_editor, from_state, to_state)
        elif self.allow_migrate_model(connection.alias, model):
            schema_editor.remove_index(model, self.index, concurrently=True)
