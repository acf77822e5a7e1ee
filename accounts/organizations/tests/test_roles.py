"""Which role may do what, as a table: everything that is not named is refused."""

import pytest

from accounts.organizations.roles import Act, Role, is_over, may

ALLOWED = {
    Role.OWNER: set(Act),
    Role.ADMIN: {Act.SEE_MEMBERS, Act.INVITE, Act.MANAGE_MEMBERS},
    Role.MEMBER: set(),
}
OVER = {Role.OWNER: set(Role), Role.ADMIN: {Role.ADMIN, Role.MEMBER}, Role.MEMBER: set()}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("act", Act)
def test_a_role_allows_what_the_table_says(role: Role, act: Act) -> None:
    """Nothing more, and nothing less."""
    assert may(role, act) is (act in ALLOWED[role])


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("other", Role)
def test_a_role_decides_about_those_of_the_table(role: Role, other: Role) -> None:
    """An admin does not touch owners, and a member nobody."""
    assert is_over(role, other) is (other in OVER[role])


def test_a_role_of_another_release_allows_nothing() -> None:
    """And is none that anybody but an owner of a later release could give."""
    assert not any(may("auditor", act) for act in Act)
    assert not any(is_over("auditor", role) or is_over(role, "auditor") for role in Role)
