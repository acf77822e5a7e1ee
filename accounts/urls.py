"""Paths of this application; ``ironauth.urls`` puts them under ``/api/v1/access/`` and ``/api/v1/``."""

from django.urls import URLPattern, path

from accounts.audit_views import AuditView
from accounts.staff_views import MembershipView, RolesView, UsersView, UserView
from accounts.views import MeView, SignupView

access_urlpatterns: list[URLPattern] = [
    path("signup", SignupView.as_view(), name="signup"),
    path("me", MeView.as_view(), name="me"),
]
staff_urlpatterns: list[URLPattern] = [
    path("users", UsersView.as_view(), name="users"),
    path("users/<uuid:user_id>", UserView.as_view(), name="user"),
    path("users/<uuid:user_id>/roles/<str:role>", MembershipView.as_view(), name="user-role"),
    path("audit", AuditView.as_view(), name="audit"),
    path("roles", RolesView.as_view(), name="roles"),
]
