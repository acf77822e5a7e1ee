"""Amazon Cognito: ``list-users`` as JSON, or a CSV of its form. It gives no password away."""

from typing import Any

from accounts.transfer.records import Note, Person, flag, identities_of, moment, profile_of, text
from accounts.transfer.sources import Source


def _person(row: dict[str, Any]) -> Person:
    attributes = row.get("Attributes") or row.get("UserAttributes")
    told = {one["Name"]: one.get("Value") for one in attributes} if attributes else row
    second = flag(told, "cognito:mfa_enabled") or bool(row.get("UserMFASettingList") or row.get("MFAOptions"))
    names = " ".join(filter(None, (text(told, "given_name"), text(told, "family_name"))))
    return Person(
        external_id=text(told, "sub") or text(row, "Username", "cognito:username"),
        email=text(told, "email"),
        email_verified=flag(told, "email_verified"),
        name=text(told, "name") or names,
        profile=profile_of(told),
        is_active=flag(row, "Enabled", default=True),
        created_at=moment(row.get("UserCreateDate")),
        identities=identities_of(told.get("identities"), provider=("providerName",), subject=("userId",)),
        notes=frozenset({Note.NO_PASSWORD} | ({Note.FACTOR_UNSUPPORTED} if second else set())),
    )


SOURCE = Source("cognito", "list-users as JSON, or a CSV with its columns", _person, keys=("Users",))
