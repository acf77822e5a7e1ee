"""The four paths, under IRONAUTH_SIMPLEJWT_PATH."""

from django.urls import URLPattern, path

from tokens.simplejwt import views

urlpatterns: list[URLPattern] = [
    path("", views.ObtainView.as_view(), name="token_obtain_pair"),
    path("refresh/", views.RefreshView.as_view(), name="token_refresh"),
    path("verify/", views.VerifyView.as_view(), name="token_verify"),
    path("blacklist/", views.BlacklistView.as_view(), name="token_blacklist"),
]
