"""``python -m perf.pages``: which pages it measures."""

import re
import subprocess
import sys

import pytest
from django.conf import settings

from perf.pages import ADMIN, PAGES, ROWS

pytestmark = [pytest.mark.only_sqlite, pytest.mark.live]

#: Those that something has to be made for first.
MADE = {
    "/account/security/organizations/<id>",
    "/oauth/authorize (consent)",
    "/oauth/device (confirmation)",
    "/admin/accounts/user/<id>/change/",
}


def test_every_page_is_in_the_table() -> None:
    """Those of strangers, of the account, of the provider and of the admin; none of them leads elsewhere."""
    command = [sys.executable, "-m", "perf.pages", "1"]
    done = subprocess.run(command, cwd=settings.BASE_DIR, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"\| `(.+?)` \| [\d,]+ \| \d+\.\d\d ", done.stdout + done.stderr)
    assert set(rows) == {*PAGES, *(f"/account/security{row}" for row in ROWS), *ADMIN, *MADE}
