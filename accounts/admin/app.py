"""Django's admin application, with this product's site in place of the stock one."""

from django.contrib.admin.apps import AdminConfig
from django.utils.module_loading import autodiscover_modules


class StaffAdminConfig(AdminConfig):
    """Name the site that ``django.contrib.admin.site`` is made from, and the modules that register pages."""

    default_site = "accounts.admin.site.StaffSite"

    def ready(self) -> None:
        """Import ``admin.registration`` of every application but Django's ``admin``: ours are packages."""
        super().ready()
        autodiscover_modules("admin.registration")
