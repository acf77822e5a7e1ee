"""Paths of second factors; ``accounts.urls`` adds them to its own."""

from django.urls import URLPattern, path

from accounts.mfa import views
from accounts.mfa.passkeys import views as passkey_views
from accounts.mfa.recovery import views as recovery_views
from accounts.mfa.totp import views as totp_views

access_urlpatterns: list[URLPattern] = [
    path("mfa", views.MfaView.as_view(), name="mfa"),
    path("mfa/totp", totp_views.TotpView.as_view(), name="mfa-totp"),
    path("mfa/totp/confirm", totp_views.TotpConfirmView.as_view(), name="mfa-totp-confirm"),
    path("mfa/recovery-codes", recovery_views.RecoveryCodesView.as_view(), name="mfa-recovery-codes"),
    path("mfa/passkeys", passkey_views.PasskeysView.as_view(), name="mfa-passkeys"),
    path("mfa/passkeys/options", passkey_views.PasskeyOptionsView.as_view(), name="mfa-passkeys-options"),
    path("mfa/passkeys/<uuid:passkey_id>", passkey_views.PasskeyView.as_view(), name="mfa-passkey"),
]
staff_urlpatterns: list[URLPattern] = [
    path("users/<uuid:user_id>/mfa", views.UserMfaView.as_view(), name="user-mfa"),
]
