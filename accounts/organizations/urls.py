"""Paths of organisations, for people and for staff; ``accounts.urls`` adds them to its own."""

from django.urls import URLPattern, path

from accounts.organizations import views
from accounts.organizations.administration import views as staff

urlpatterns: list[URLPattern] = [
    path("organizations", views.OrganizationsView.as_view(), name="organizations"),
    path("organizations/invitations/accept", views.AcceptInvitationView.as_view(), name="organization-accept"),
    path("organizations/invitations/decline", views.DeclineInvitationView.as_view(), name="organization-decline"),
    path("organizations/<uuid:organization_id>", views.OrganizationView.as_view(), name="organization"),
    path("organizations/<uuid:organization_id>/leave", views.LeaveView.as_view(), name="organization-leave"),
    path("organizations/<uuid:organization_id>/members", views.MembersView.as_view(), name="organization-members"),
    path(
        "organizations/<uuid:organization_id>/members/<uuid:user_id>",
        views.MemberView.as_view(),
        name="organization-member",
    ),
    path(
        "organizations/<uuid:organization_id>/invitations",
        views.MemberInvitationsView.as_view(),
        name="organization-invitations",
    ),
    path(
        "organizations/<uuid:organization_id>/invitations/<uuid:invitation_id>",
        views.MemberInvitationView.as_view(),
        name="organization-invitation",
    ),
    path("staff/organizations", staff.StaffOrganizationsView.as_view(), name="staff-organizations"),
    path(
        "staff/organizations/<uuid:organization_id>",
        staff.StaffOrganizationView.as_view(),
        name="staff-organization",
    ),
    path(
        "staff/organizations/<uuid:organization_id>/members",
        staff.StaffMembersView.as_view(),
        name="staff-organization-members",
    ),
    path(
        "staff/organizations/<uuid:organization_id>/members/<uuid:user_id>",
        staff.StaffMemberView.as_view(),
        name="staff-organization-member",
    ),
    path("users/<uuid:user_id>/organizations", staff.UserOrganizationsView.as_view(), name="user-organizations"),
]
