"""People as the tests of accounts have them."""

from accounts.conftest import make_role, make_user, permission, sign_in

__all__ = ["make_role", "make_user", "permission", "sign_in"]
