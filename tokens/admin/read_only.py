"""Admin pages of rows that only units of work may write, with the columns of this application's lists."""

from ironauth.infrastructure.admin import read_only as read_only_admin


class ReadOnly(read_only_admin.ReadOnly):
    """Mixin of the pages of sessions and keys."""

    class Media:
        css = {"all": ["tokens/admin.css"]}
