"""What the columns of the admin's pages are called."""

from typing import Any

from django.contrib import admin


def test_no_column_of_ours_has_the_name_of_a_field() -> None:
    """Django shows the field then: what is kept for machines, in place of what the method says of it."""
    pages: list[Any] = [(one, one.model) for one in admin.site._registry.values()]
    pages += [(inline, inline.model) for one, _ in pages for inline in one.inlines]
    hidden = []
    for page, model in pages:
        fields = {field.name for field in model._meta.concrete_fields}
        shown = {name for name in (*getattr(page, "list_display", ()), *page.readonly_fields) if isinstance(name, str)}
        hidden += [(str(model._meta), name) for name in shown & fields if hasattr(page, name)]
    assert len(pages) > 10
    assert hidden == []
