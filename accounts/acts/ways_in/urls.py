"""Paths of what a person signs in with, for staff; ``accounts.urls`` adds them to its own."""

from django.urls import URLPattern, path

from accounts.acts.ways_in import views

staff_urlpatterns: list[URLPattern] = [
    path("users/<uuid:user_id>/password", views.UserPasswordView.as_view(), name="user-password"),
    path("users/<uuid:user_id>/mfa", views.UserMfaView.as_view(), name="user-mfa"),
    path("users/<uuid:user_id>/mfa/passkeys/<uuid:passkey_id>", views.UserPasskeyView.as_view(), name="user-passkey"),
    path("users/<uuid:user_id>/identities", views.UserIdentitiesView.as_view(), name="user-identities"),
    path("users/<uuid:user_id>/identities/<uuid:identity_id>", views.UserIdentityView.as_view(), name="user-identity"),
    path("users/<uuid:user_id>/kept-devices", views.UserKeptDevicesView.as_view(), name="user-kept-devices"),
    path(
        "users/<uuid:user_id>/kept-devices/<uuid:device_id>",
        views.UserKeptDeviceView.as_view(),
        name="user-kept-device",
    ),
]
