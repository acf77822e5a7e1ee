"""Count what a swarm left in the database: ``python -m perf.swarm.leftovers PREFIX``, in the server's environment.

Prints a JSON object: ``accounts`` whose address begins with PREFIX, and ``sessions`` that have not ended.
"""

import json
import os
import sys

import django


def main() -> int:
    """Count. Returns 2 without a prefix."""
    if len(sys.argv) != 2:
        sys.stderr.write("Name the prefix of the run's addresses.\n")
        return 2
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    django.setup()
    # Django's models can only be imported after django.setup().
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - needs django.setup()

    from tokens.sessions.models import Session  # noqa: PLC0415 - needs django.setup()

    accounts = get_user_model().objects.filter(email__startswith=f"{sys.argv[1]}-").count()
    sessions = Session.objects.filter(revoked_at=None).count()
    sys.stdout.write(json.dumps({"accounts": accounts, "sessions": sessions}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
