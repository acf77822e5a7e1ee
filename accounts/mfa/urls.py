"""Paths of second factors; ``accounts.urls`` adds them to its own."""

from django.urls import URLPattern, path

from accounts.mfa import views
from accounts.mfa.kept_devices import views as kept_views
from accounts.mfa.passkeys import views as passkey_views
from accounts.mfa.recovery import views as recovery_views
from accounts.mfa.totp import staff_views as totp_staff_views
from accounts.mfa.totp import views as totp_views

access_urlpatterns: list[URLPattern] = [
    path("mfa", views.MfaView.as_view(), name="mfa"),
    path("mfa/totp", totp_views.TotpView.as_view(), name="mfa-totp"),
    path("mfa/totp/confirm", totp_views.TotpConfirmView.as_view(), name="mfa-totp-confirm"),
    path("mfa/recovery-codes", recovery_views.RecoveryCodesView.as_view(), name="mfa-recovery-codes"),
    path("kept-devices", kept_views.KeptDevicesView.as_view(), name="kept-devices"),
    path("kept-devices/<uuid:device_id>", kept_views.KeptDeviceView.as_view(), name="kept-device"),
    path("mfa/passkeys", passkey_views.PasskeysView.as_view(), name="mfa-passkeys"),
    path("mfa/passkeys/options", passkey_views.PasskeyOptionsView.as_view(), name="mfa-passkeys-options"),
    path("mfa/passkeys/<uuid:passkey_id>", passkey_views.PasskeyView.as_view(), name="mfa-passkey"),
]
staff_urlpatterns: list[URLPattern] = [
    path("users/<uuid:user_id>/mfa/totp", totp_staff_views.UserTotpView.as_view(), name="user-totp"),
]
