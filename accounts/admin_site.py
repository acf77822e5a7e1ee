"""The admin's site: Django's, with a start page that shows the last 24 hours."""

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.template.response import TemplateResponse

from accounts import admin_start


class StaffSite(AdminSite):
    """What ``django.contrib.admin.site`` is here."""

    site_title = site_header = "IronAuth"
    index_title = "Start"
    index_template = "admin/start.html"

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """Show the figures the caller may see, and the lists."""
        return super().index(request, {"figures": admin_start.figures(request), **(extra_context or {})})
