"""Four addresses: ``path("ironauth/", include("ironauth_client.django.urls"))``."""

from django.urls import path

from ironauth_client.django import views

app_name = "ironauth_client"
urlpatterns = [
    path("sign-in/", views.sign_in, name="sign_in"),
    path("callback/", views.callback, name="callback"),
    path("sign-out/", views.sign_out, name="sign_out"),
    path("backchannel-logout/", views.backchannel_logout, name="backchannel_logout"),
]
