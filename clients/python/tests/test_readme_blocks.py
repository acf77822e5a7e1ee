"""The package's page does what it shows."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)

FILE = re.compile(r"# (\w+\.py)\n")
#: What ``startproject`` writes, as far as it matters here.
BASE = """\
import os

from tests.site import settings as site

SECRET_KEY, ROOT_URLCONF, USE_TZ, DATABASES = site.SECRET_KEY, "urls", True, site.DATABASES
ALLOWED_HOSTS = ["testserver"]
INSTALLED_APPS, MIDDLEWARE = [*site.INSTALLED_APPS[:-1]], [*site.MIDDLEWARE[:-1]]
"""
TRIED = """\
import django

django.setup()

from django.core.management import call_command
from django.conf import settings
from django.shortcuts import resolve_url
from django.test import RequestFactory
from views import Orders

call_command("check", fail_level="WARNING", verbosity=0)
answer = Orders.as_view()(RequestFactory().get("/orders"))
print(answer.status_code, answer["WWW-Authenticate"], resolve_url(settings.LOGIN_URL))
"""


def test_every_block_of_the_page_runs() -> None:
    """They run as one program, from top to bottom, and what they assert holds."""
    blocks = [block for block in BLOCK.findall((PACKAGE / "README.md").read_text()) if not FILE.match(block)]
    assert len(blocks) == 7
    exec(compile("\n".join(blocks), "README.md", "exec"), {"__name__": "readme"})  # noqa: S102 - our own page


def test_the_files_of_a_django_site_make_a_site(tmp_path: Path) -> None:
    """They are added to a new site: its checks pass, and its API answers 401 to a request without a token."""
    blocks = [block for block in BLOCK.findall((PACKAGE / "README.md").read_text()) if FILE.match(block)]
    files = {FILE.findall(block)[0]: block for block in blocks}
    del files["application.py"]
    assert set(files) == {"settings.py", "urls.py", "views.py"}
    files["settings.py"] = BASE + files["settings.py"]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "try.py").write_text(TRIED)
    env = {"PYTHONPATH": f"{tmp_path}:{PACKAGE}", "CLIENT_SECRET": "secret", "DJANGO_SETTINGS_MODULE": "settings"}
    run = subprocess.run(
        [sys.executable, "-W", "error", "try.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split()[-3:] == ["401", "Bearer", "/ironauth/sign-in/"]


@pytest.mark.parametrize("name", ["httpx", "joserfc"])
def test_the_package_needs_what_the_product_needs(name: str) -> None:
    """Its lower bounds are versions that this suite runs with."""
    wanted = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["dependencies"]
    product = (PACKAGE.parents[1] / "pyproject.toml").read_text()
    (requirement,) = [line for line in wanted if line.startswith(name)]
    assert f'"{requirement}"' in product
