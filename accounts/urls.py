"""Paths of this application; ``ironauth.urls`` puts them under ``/api/v1/access/``, ``/api/v1/`` and ``/``."""

from django.urls import URLPattern, path

from accounts.acts.messages.views import UserMessageSendView, UserMessagesView
from accounts.acts.views import UserActView, UserRestoreView
from accounts.acts.ways_in import urls as way_in_urls
from accounts.email import views as email_views
from accounts.mfa import urls as mfa_urls
from accounts.organizations import urls as organization_urls
from accounts.own_account import project_profile
from accounts.own_account.views import LanguageView, MeView, ProjectProfileView, SignupView
from accounts.pages import account as account_pages
from accounts.pages import email as email_pages
from accounts.pages import organizations as organization_pages
from accounts.pages import own_page, row_page
from accounts.pages.invitation import InvitationPage
from accounts.privacy.views import ExportView
from accounts.staff.invitation_views import InvitationSendView, InvitationsView, InvitationView
from accounts.staff.roles.views import RoleView
from accounts.staff.views import AuditExportView, AuditView, MembershipView, RolesView, UsersView, UserView
from accounts.verdict.views import FailuresView, VerdictView

access_urlpatterns: list[URLPattern] = [
    path("signup", SignupView.as_view(), name="signup"),
    path("me", MeView.as_view(), name="me"),
    path("me/language", LanguageView.as_view(), name="me-language"),
    path("me/export", ExportView.as_view(), name="me-export"),
    path("me/restore", email_views.RestoreView.as_view(), name="me-restore"),
    path("password/reset", email_views.ResetRequestView.as_view(), name="password-reset"),
    path("password/reset/confirm", email_views.ResetConfirmView.as_view(), name="password-reset-confirm"),
    path("email", email_views.ChangeEmailView.as_view(), name="email"),
    path("email/verify", email_views.VerifyEmailView.as_view(), name="email-verify"),
    path("email/verify/resend", email_views.ResendView.as_view(), name="email-verify-resend"),
    *mfa_urls.access_urlpatterns,
]
if project_profile.registered():
    access_urlpatterns.append(path("me/profile", ProjectProfileView.as_view(), name="me-profile"))
#: At the root: what the links in messages open, and pages for people without a product front end.
page_urlpatterns: list[URLPattern] = [
    path("email/verify", email_pages.VerifyPage.as_view(), name="verify"),
    path("password/reset", email_pages.ResetPage.as_view(), name="reset"),
    path("account/restore", email_pages.RestorePage.as_view(), name="restore"),
    path("account", account_pages.AccountHome.as_view()),
    path("account/", account_pages.AccountHome.as_view()),  # as people type it
    path("account/invitation", InvitationPage.as_view(), name="invitation"),
    path("account/security", own_page.OverviewPage.as_view(), name="security-page"),
    path("account/security/organizations", organization_pages.OrganizationsPage.as_view(), name="organizations-page"),
    path(
        "account/security/organizations/<uuid:organization_id>",
        organization_pages.OneOrganizationPage.as_view(),
        name="organization-page",
    ),
    path(
        "account/security/organizations/<uuid:organization_id>/delete",
        organization_pages.DeletePage.as_view(),
        name="organization-delete-page",
    ),
    path(
        "account/security/organizations/<uuid:organization_id>/members/<uuid:user_id>",
        organization_pages.MemberPage.as_view(),
        name="organization-member-page",
    ),
    path("account/security/<slug:section>", row_page.RowPage.as_view(), name="account-row"),
    path("account/security/<slug:section>/<uuid:item>", row_page.RowPage.as_view(), name="account-item"),
    path("account/forgot", account_pages.ForgotPage.as_view(), name="forgot-page"),
    path("account/verify-again", account_pages.VerifyAgainPage.as_view(), name="verify-again-page"),
]
staff_urlpatterns: list[URLPattern] = [
    path("users", UsersView.as_view(), name="users"),
    path("users/invitations", InvitationsView.as_view(), name="invitations"),
    path("users/invitations/<uuid:invitation_id>", InvitationView.as_view(), name="invitation"),
    path("users/invitations/<uuid:invitation_id>/send", InvitationSendView.as_view(), name="invitation-send"),
    path("users/<uuid:user_id>", UserView.as_view(), name="user"),
    path("users/<uuid:user_id>/acts/<slug:act>", UserActView.as_view(), name="user-act"),
    path("users/<uuid:user_id>/messages", UserMessagesView.as_view(), name="user-messages"),
    path("users/<uuid:user_id>/messages/<uuid:message_id>/send", UserMessageSendView.as_view(), name="user-message"),
    path("users/<uuid:user_id>/restore", UserRestoreView.as_view(), name="user-restore"),
    path("users/<uuid:user_id>/verdict", VerdictView.as_view(), name="user-verdict"),
    path("users/<uuid:user_id>/failures", FailuresView.as_view(), name="user-failures"),
    path("users/<uuid:user_id>/roles/<str:role>", MembershipView.as_view(), name="user-role"),
    *way_in_urls.staff_urlpatterns,
    *mfa_urls.staff_urlpatterns,
    *organization_urls.urlpatterns,
    path("audit", AuditView.as_view(), name="audit"),
    path("audit/export", AuditExportView.as_view(), name="audit-export"),
    path("roles", RolesView.as_view(), name="roles"),
    path("roles/<str:role>", RoleView.as_view(), name="role"),
]
