"""Fill the benchmark's own database with people to sign in: ``python -m perf.seed --users 4000``.

It runs in the environment of the server whose database it is.
"""

import argparse
import os
import sys

import django

PASSWORD = "Orbital-marmalade-9-teapots"  # noqa: S105 - of people who exist only in the benchmark's database


def email_of(serial: int) -> str:
    """Return the address of the seeded person with this number, from 0."""
    return f"person{serial}@bench.example"


def main() -> int:
    """Insert people who share one password hash: checking it costs a sign-in as much as a hash of its own."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--users", type=int, required=True)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    django.setup()
    # Django's models can only be imported after django.setup().
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - needs django.setup()
    from django.contrib.auth.hashers import make_password  # noqa: PLC0415 - needs django.setup()

    from accounts.emails import fold  # noqa: PLC0415 - needs django.setup()

    user_model = get_user_model()
    encoded = make_password(PASSWORD)
    addresses = (email_of(serial) for serial in range(options.users))
    people = [user_model(email=address, email_key=fold(address), password=encoded) for address in addresses]
    user_model.objects.bulk_create(people, batch_size=500)
    return 0


if __name__ == "__main__":
    sys.exit(main())
