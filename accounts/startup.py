"""What this application does once its models exist: register kinds, connect receivers, name the jobs of a server."""

from typing import Final

from django.core import checks

from accounts import search, signals
from accounts.admin.access import sign_in as admin_sign_in
from accounts.admin.access import step_up as admin_step_up
from accounts.audit import checks as audit_checks
from accounts.audit import partitions
from accounts.email.code_method import EmailCodeMethod
from accounts.federation import registration as federation
from accounts.invitations import registration as invitations
from accounts.lazy_migration import registration as lazy_migration
from accounts.mfa import factors
from accounts.mfa.reauthentication import SecondFactorMethod
from accounts.organizations import registration as organizations
from accounts.outbox import checks as mail_checks
from accounts.outbox import delivery as mail_delivery
from accounts.passwords import breached, breached_service
from accounts.passwords.weak_patterns import load_common_passwords
from accounts.transfer import registration as transfer
from accounts.users import reauthentication
from accounts.users.password_method import PasswordMethod
from ironauth.infrastructure.core.lifecycle import on_shutdown, on_startup
from ironauth.infrastructure.http import brand, client_context

#: Where people act for themselves; ``accounts.urls`` has the routes.
OWN_PATHS: Final = ("/account", "/email/", "/password/", "/api/v1/access/")


def connect() -> None:
    """Register methods and connect receivers; have servers load the blocklists before a sign-up, and deliver mail."""
    client_context.register_own_paths(*OWN_PATHS)
    factors.register()
    reauthentication.register(EmailCodeMethod())
    reauthentication.register(PasswordMethod())
    reauthentication.register(SecondFactorMethod())
    checks.register(brand.check_accent)
    checks.register(search.check_indexes, checks.Tags.database)
    checks.register(audit_checks.check_partitions, checks.Tags.database)
    checks.register(mail_checks.check_mail, checks.Tags.security, deploy=True)
    signals.connect()
    federation.register()
    invitations.register()
    lazy_migration.register()
    organizations.register()
    transfer.register()
    admin_sign_in.connect()
    admin_step_up.connect()
    on_startup(load_common_passwords)
    on_startup(breached.open_at_start)
    on_startup(partitions.make_ahead_at_start)
    on_startup(mail_delivery.start)
    on_shutdown(mail_delivery.stop)
    on_shutdown(breached_service.close)
