"""Django's admin application, with this product's site in place of the stock one."""

from django.contrib.admin.apps import AdminConfig


class StaffAdminConfig(AdminConfig):
    """Name the site ``django.contrib.admin.site`` is made from."""

    default_site = "accounts.admin_site.StaffSite"
