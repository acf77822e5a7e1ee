"""A Django project with allauth and django-otp, whose tables their migrations made: by the database, and by a dump."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accounts.transfer.records import MalformedError, Note, Person, ToldIdentity
from accounts.transfer.sources import Options, people
from accounts.transfer.sources.registry import SOURCES
from accounts.transfer.tests.test_django_otp import CODES, KEY, TOKENS
from accounts.transfer.tests.test_sources import BCRYPT, opens
from ironauth.config import storage

APPS = (
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "django_otp",
    "django_otp.plugins.otp_email",
    "django_otp.plugins.otp_hotp",
    "django_otp.plugins.otp_static",
    "django_otp.plugins.otp_totp",
)
#: Run in a process of its own, because it has other settings. Its argument: the folder, the apps, what the rows hold.
SITE = """
import json, sys
import django
from django.conf import settings
from django.core.management import call_command

folder, apps, key, tokens, bcrypt = json.loads(sys.argv[1])
database = {"ENGINE": "django.db.backends.sqlite3", "NAME": folder + "/shop.sqlite3"}
between = ["allauth.account.middleware.AccountMiddleware"]
settings.configure(INSTALLED_APPS=apps, MIDDLEWARE=between, DATABASES={"default": database}, SECRET_KEY="x")
django.setup()
call_command("migrate", verbosity=0, skip_checks=True)

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group, User
from django_otp.plugins.otp_email.models import EmailDevice
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice

def person(pk, password, **more):
    return User.objects.create(pk=pk, username=f"p{pk}", email=f"p{pk}@example.com", password=password, **more)

ann = person(3, "bcrypt$" + bcrypt, first_name="Ann", last_name="Lee")
bob, cid = person(5, "!"), person(8, "!")
EmailAddress.objects.create(user=ann, email="p3@example.com", verified=False)
EmailAddress.objects.create(user=bob, email="P5@example.com", verified=True)
SocialAccount.objects.create(user=bob, provider="google", uid="7", extra_data={"email": "a@gmail.com"})
bob.groups.add(Group.objects.create(name="staff"))
TOTPDevice.objects.create(user=ann, name="default", key=key)
TOTPDevice.objects.create(user=bob, name="default", key=key, confirmed=False)
for user, confirmed, token in ((ann, True, tokens[0]), (bob, False, tokens[1])):
    codes = StaticDevice.objects.create(user=user, name="backup", confirmed=confirmed)
    StaticToken.objects.create(device=codes, token=token)
Authenticator.objects.create(user=cid, type="totp", data={"secret": "MZXW6YTB" * 4})
EmailDevice.objects.create(user=cid, name="mail")

tables = ["auth", "account", "mfa", "socialaccount", "otp_totp", "otp_static", "otp_email", "otp_hotp"]
call_command("dumpdata", *tables, output=folder + "/keys.json")
call_command("dumpdata", *tables, output=folder + "/foreign.json", use_natural_foreign_keys=True)
call_command("dumpdata", "auth.user", output=folder + "/primary.json", use_natural_primary_keys=True)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a project with three people: its database, and dumps of three forms."""
    folder = tmp_path_factory.mktemp("shop")
    given = json.dumps([str(folder), APPS, KEY, TOKENS, BCRYPT])
    made = subprocess.run([sys.executable, "-c", SITE, given], capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stderr
    return folder


def asked(site: Path, name: str) -> Iterator[Any]:
    """Yield everybody of a dump, or of the database."""
    if name != "shop.sqlite3":
        return people(SOURCES["django"], site / name, Options())
    database = storage.database(f"sqlite:///{site / name}", "--database")
    return people(SOURCES["django"], Path(), Options(database=database))


@pytest.mark.parametrize("name", ["shop.sqlite3", "keys.json"])
def test_people_of_the_packages_own_tables(site: Path, name: str, django_db_blocker: Any) -> None:
    """Each has their own password, verified address, identity, app and codes; what stays behind is noted."""
    with django_db_blocker.unblock():
        ann, bob, cid = asked(site, name)
    assert all(isinstance(one, Person) for one in (ann, bob, cid))
    assert [one.external_id for one in (ann, bob, cid)] == ["3", "5", "8"]
    assert (ann.name, ann.email_verified, bob.email_verified) == ("Ann Lee", False, True)
    assert opens(ann)
    assert (bob.identities, ann.identities) == ((ToldIdentity("google", "7", "a@gmail.com"),), ())
    assert (ann.totp_secret, ann.code_digests) == (bytes.fromhex(KEY), CODES[:1])
    assert (bob.totp_secret, bob.code_digests) == (None, ())
    assert cid.totp_secret == b"fooba" * 4
    assert ann.notes == frozenset()
    assert bob.notes == {Note.NO_PASSWORD, Note.ATTRIBUTES}
    assert cid.notes == {Note.NO_PASSWORD, Note.FACTOR_UNSUPPORTED}


@pytest.mark.parametrize(
    ("name", "option"), [("foreign.json", "--natural-foreign"), ("primary.json", "--natural-prim")]
)
def test_dumps_by_natural_keys(site: Path, name: str, option: str) -> None:
    """What Django writes with either option is refused before anybody is read."""
    with pytest.raises(MalformedError, match=option):
        list(asked(site, name))
