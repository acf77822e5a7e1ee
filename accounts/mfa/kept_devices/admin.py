"""Kept devices in Django's admin: to see and to end."""

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts.access.rights import DELETE_KEPT_DEVICES
from accounts.audit import recording as audit
from accounts.mfa.kept_devices.models import KeptDevice
from ironauth.infrastructure.admin.actions import admin_action, holds
from ironauth.infrastructure.admin.read_only import ReadOnly, moment
from ironauth.infrastructure.core.user_agents import short_name

FIELDS = ("id", "user", "user_agent", "created_at", "last_used_at", "expires_at")


@admin.register(KeptDevice)
class KeptDeviceAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """Devices on which the second factor is not asked for."""

    lookups: ClassVar[frozenset[str]] = frozenset({"user__exact"})
    hidden = ("digest",)
    list_display = ("user", "browser", "created", "last_used", "expires")
    search_fields = ("user__email",)
    search_help_text = "E-mail address"
    list_select_related = ("user__pending_deletion",)
    show_full_result_count = False
    fields = FIELDS
    readonly_fields = FIELDS
    actions = ("end_devices",)

    def named(self, row: KeptDevice) -> str:
        """Return the browser and whose it is."""
        return f"{short_name(row.user_agent) or 'A browser'} of {row.user}"

    @admin.display(description="Browser", ordering="user_agent")
    def browser(self, device: KeptDevice) -> str:
        """Return the browser in a few words."""
        return short_name(device.user_agent)

    @admin.display(description="Created", ordering="created_at")
    def created(self, device: KeptDevice) -> str:
        """Return when the second factor was proved on it."""
        return moment(device.created_at)

    @admin.display(description="Last used", ordering="last_used_at")
    def last_used(self, device: KeptDevice) -> str:
        """Return when it last stood in for the second factor."""
        return moment(device.last_used_at)

    @admin.display(description="Expires", ordering="expires_at")
    def expires(self, device: KeptDevice) -> str:
        """Return until when it does so."""
        return moment(device.expires_at)

    has_end_permission = holds(DELETE_KEPT_DEVICES)

    @admin_action("End selected kept devices", permission="end", danger=True, step_up=False)
    def end_devices(self, request: HttpRequest, queryset: QuerySet[KeptDevice]) -> None:
        """End them: the next sign-in there asks for the second factor."""
        caller: Any = request.user
        with transaction.atomic():
            owned = list(queryset.values_list("user_id", "pk"))
            KeptDevice.objects.filter(pk__in=[pk for _, pk in owned]).delete()
            audit.record_each(
                audit.Event.DEVICE_FORGOTTEN, [(user_id, None) for user_id, _ in owned], actor_id=caller.pk
            )
        self.message_user(request, f"Ended: {len(owned)}.", messages.SUCCESS)
