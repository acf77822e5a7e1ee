"""A product built on this one: the wheel, the project it makes, and ``request.user`` in that project's own view."""

import json
import os
import re
import shutil
import site
import sqlite3
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest
from django.conf import settings

from conftest import PASSWORD, SERVER_START_S
from ironauth import settings_test
from ironauth.version import VERSION
from tokens.oauth.tests.walk import form_to

ROOT = Path(settings.BASE_DIR)
GUIDE = (ROOT / "docs" / "guides" / "django-project.md").read_text(encoding="utf-8")
EMAIL = "mia@example.com"
#: The last migrations of the releases before: a project of each is brought here.
RELEASE_BEFORE = {"accounts": "0026", "tokens": "0030", "infrastructure": "0004"}  # 0.3.0
OLDER_RELEASE = {"accounts": "0022", "tokens": "0014", "infrastructure": "0003"}  # 0.2.0
OLD_PERSON = "01a1fd53214673f0abfb1522a1fb1f66"

#: Nothing here depends on the suite's storage: a project has its own file. A wheel and a project are made first.
pytestmark = [pytest.mark.only_sqlite, pytest.mark.live]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    uv = str(Path(sys.executable).parent / "uv")
    command = [uv, "build", "--offline", "--no-config", "--quiet", "--out-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    assert (folder / f"ironauth-{VERSION}.tar.gz").is_file()
    return folder / f"ironauth-{VERSION}-py3-none-any.whl"


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment with the wheel in it, and the requirements that are installed here."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder, symlinks=True)
    uv = str(Path(sys.executable).parent / "uv")
    python = str(folder / "bin" / "python")
    subprocess.run(
        [uv, "pip", "install", "--offline", "--no-config", "--quiet", "--no-deps", "--python", python, str(wheel)],
        check=True,
    )
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "shared.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
    return folder / "bin"


def environment() -> dict[str, str]:
    """Return an environment without anything of the suite's: a project reads its own var/env."""
    kept = {name: value for name, value in os.environ.items() if name not in settings_test.ENVIRONMENT}
    kept.pop("PYTHONPATH", None)
    kept.pop("DJANGO_SETTINGS_MODULE", None)
    return kept


@pytest.fixture(scope="module")
def project(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project, made by the installed command."""
    folder = tmp_path_factory.mktemp("projects")
    subprocess.run([programs / "ironauth", "startproject", "shop"], cwd=folder, env=environment(), check=True)
    return folder / "shop"


def manage(programs: Path, project: Path, *arguments: str) -> str:
    """Run the project's manage.py; return what it printed."""
    command = [str(programs / "python"), "manage.py", *arguments]
    done = subprocess.run(command, cwd=project, env=environment(), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def served(programs: Path, project: Path) -> Iterator[str]:
    """The project, with the guide's page of orders in it, migrated and served; its base URL."""
    for name, text in re.findall(r"```python\n# (shop/\w+\.py)\n(.*?)```", GUIDE, re.DOTALL):
        with (project / name).open("a", encoding="utf-8") as file:
            file.write(text)
    assert "Order" in manage(programs, project, "makemigrations", "shop")
    bring(programs, project, RELEASE_BEFORE)
    port = settings_test._free_port()
    command = [str(programs / "python"), "manage.py", "serve", "--migrate", "--port", str(port)]
    with (project / "serve.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=project, env=environment(), stdout=log, stderr=log)
    base = f"http://localhost:{port}"
    try:
        deadline = time.monotonic() + SERVER_START_S
        while True:
            try:
                httpx.get(f"{base}/ping", timeout=1)
                break
            except httpx.TransportError:
                assert process.poll() is None, (project / "serve.log").read_text()
                assert time.monotonic() < deadline, (project / "serve.log").read_text()
                time.sleep(0.1)
        yield base
    finally:
        process.terminate()
        process.wait(timeout=15)


def bring(programs: Path, project: Path, before: Mapping[str, str]) -> None:
    """Fill the project's database as a release before has left it, and migrate it to this one."""
    for app, migration in before.items():
        manage(programs, project, "migrate", "-v0", app, migration)
    manage(programs, project, "migrate", "-v0", "shop")
    ordered_before(project)
    manage(programs, project, "migrate", "-v0")


def ordered_before(project: Path) -> None:
    """Write a person and rows of the project that refer to them into the tables of the release before."""
    with sqlite3.connect(project / "var" / "ironauth.sqlite3") as database:
        said: dict[str, object] = {
            "id": OLD_PERSON,
            "email": "old@example.com",
            "email_key": "old@example.com",
            "is_active": 1,
        }
        for _, column, kind, required, default, _ in database.execute("PRAGMA table_info(accounts_user)"):
            if required and default is None and column not in said:
                said[column] = {"bool": 0, "datetime": "2026-01-02 03:04:05"}.get(kind, 0 if "integer" in kind else "")
        columns, values = ", ".join(said), ", ".join("?" * len(said))
        insert = f"INSERT INTO accounts_user ({columns}) VALUES ({values})"  # noqa: S608 - names of the table itself
        database.execute(insert, list(said.values()))
        database.execute("INSERT INTO shop_profile (user_id, nickname) VALUES (?, 'Old')", [OLD_PERSON])
        database.execute("INSERT INTO shop_order (user_id, what) VALUES (?, 'coffee')", [OLD_PERSON])
    database.close()


def test_the_wheel_is_the_product(wheel: Path) -> None:
    """Templates, files, translations and the API's document are in it; tests and the laboratory are not."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(f"ironauth-{VERSION}.dist-info/METADATA").decode()
    assert {
        "ironauth/openapi.json",
        "ironauth/locale/de/LC_MESSAGES/django.mo",
        "ironauth/project_template/project_name/settings.py-tpl",
        "accounts/static/accounts/own_page.js",
        "accounts/templates/accounts/pages/account/overview.html",
        "tokens/migrations/0001_initial.py",
    } <= set(names)
    assert {name.split("/")[0] for name in names} == {"ironauth", "accounts", "tokens", f"ironauth-{VERSION}.dist-info"}
    assert [name for name in names if "/tests/" in name or "conftest" in name or "settings_test" in name] == []
    assert "Requires-Dist: django>=6.1.3,<6.2" in metadata
    assert "--hash" not in metadata


def test_a_new_project_is_migrated(programs: Path, project: Path, served: str) -> None:
    """Its models and migrations agree, it is served, and its secrets are its own user's alone."""
    assert served
    assert "No changes detected" in manage(programs, project, "makemigrations", "--check", "--dry-run")
    assert (project / "var" / "env").stat().st_mode & 0o077 == 0
    assert (project / "var" / "ironauth.sqlite3").is_file()


def test_a_project_of_the_release_before_keeps_its_data(project: Path, served: str) -> None:
    """Its tables refer to people as before, and nothing refers to somebody who is not there."""
    assert served
    keeps_its_data(project)


def test_a_project_of_an_older_release_keeps_its_data(
    programs: Path, project: Path, served: str, tmp_path: Path
) -> None:
    """The same where a release was left out."""
    assert served
    older = tmp_path / "shop"
    shutil.copytree(project, older, ignore=shutil.ignore_patterns("*.sqlite3*", "serve.log"))
    bring(programs, older, OLDER_RELEASE)
    keeps_its_data(older)


def keeps_its_data(project: Path) -> None:
    """Look into the project's database."""
    with sqlite3.connect(project / "var" / "ironauth.sqlite3") as database:
        found = database.execute(
            "SELECT email, nickname, what FROM accounts_user AS person"
            " JOIN shop_profile AS profile ON profile.user_id = person.id"
            " JOIN shop_order AS sold ON sold.user_id = person.id"
            " WHERE person.email NOT LIKE 'mia@%'"  # who comes in another test, perhaps before
        ).fetchall()
        assert found == [("old@example.com", "Old", "coffee")]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    database.close()


def test_a_name_that_is_no_package_is_refused(programs: Path, tmp_path: Path) -> None:
    """One line, status 1, and nothing is made."""
    done = subprocess.run(
        [programs / "ironauth", "startproject", "no-name"],
        cwd=tmp_path, env=environment(), check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("ironauth startproject: 'no-name' is not a valid project name")
    assert list(tmp_path.iterdir()) == []


def test_a_view_of_the_project_knows_who_is_signed_in(served: str) -> None:
    """Sign up at our page: the project's own view has the person, as long as they are signed in and no longer."""
    with httpx.Client(base_url=served, follow_redirects=False, timeout=30) as browser:
        assert "Sign in" in browser.get("/").text
        page = browser.get("/account/signup?next=/")
        fields = {**form_to(page, "/oauth/signup").fields, "email": EMAIL, "name": "Mia", "password": PASSWORD}
        browser.post("/oauth/signup", data=fields)
        if "access_token" not in browser.cookies:  # where an address has to be proved, signing in is a step of its own
            page = browser.get("/account/signin?next=/")
            form = form_to(page, "/oauth/signin").fields
            assert browser.post("/oauth/signin", data={**form, "email": EMAIL, "password": PASSWORD}).status_code == 303
        assert f"Signed in as {EMAIL}" in browser.get("/").text
        assert browser.get("/api/v1/access/me").json()["email"] == EMAIL  # our paths are as ever
        assert browser.get("/admin/").status_code == 302  # a session at the pages does not open the admin
        orders = browser.get("/orders")
        token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', orders.text)[0]
        ordered = browser.post("/orders", data={"what": "tea", "csrfmiddlewaretoken": token})
        assert ordered.status_code == 302, ordered.text
        shown = browser.get("/orders").text
        assert "Ordered: tea" in shown  # Django's messages
        assert f"{EMAIL}: tea" in shown
        assert browser.post("/orders", data={"what": "tea"}).status_code == 403  # Django's CSRF check
        assert browser.get("/api/orders").json() == {"orders": ["tea"]}
        kept = browser.cookies.pop("access_token")
        assert EMAIL in browser.get("/").text  # the refresh token of the session stands in
        browser.cookies.set("access_token", kept[:-4] + "AAAA", domain="localhost.local", path="/")
        refresh = browser.cookies.pop("refresh_token")
        assert "Sign in" in browser.get("/").text
        browser.cookies.pop("access_token")
        browser.cookies.set("refresh_token", refresh, domain="localhost.local", path="/")
        assert browser.post("/api/v1/access/logout", headers={"Origin": served}).status_code == 204
        browser.cookies.set("refresh_token", refresh, domain="localhost.local", path="/")
        assert "Sign in" in browser.get("/").text  # the session is over, whatever cookies the browser keeps
        assert browser.get("/orders").status_code == 302
        assert browser.get("/nowhere").status_code == 404


def test_own_fields_are_in_the_api(served: str, project: Path) -> None:
    """Each person reads and changes the registered field of their own row, and nothing else; the export has it."""
    path = "/api/v1/access/me/profile"
    with httpx.Client(base_url=served, timeout=30) as program:

        def signed_in(name: str) -> dict[str, str]:
            person = {"email": f"{name}@example.com", "password": PASSWORD}
            assert program.post("/api/v1/access/signup", json=person).status_code in (201, 202)
            token = program.post("/api/v1/access/signin", json=person).json()["access_token"]
            return {"Authorization": f"Bearer {token}"}

        kim, lou = signed_in("kim"), signed_in("lou")
        assert program.get(path).status_code == program.patch(path, json={"nickname": "x"}).status_code == 401
        assert program.get(path, headers=kim).json() == {"nickname": ""}
        told = program.patch(path, json={"nickname": "Kim", "user": OLD_PERSON, "user_id": OLD_PERSON}, headers=kim)
        assert (told.status_code, told.json()) == (200, {"nickname": "Kim"})
        assert program.patch(path, json={}, headers=kim).json() == {"nickname": "Kim"}
        assert program.get(path, headers=lou).json() == {"nickname": ""}
        assert program.patch(path, json={"nickname": "x" * 100}, headers=lou).status_code == 200
        for bad in ("x" * 101, "a\u0000b", None, ["x"], {"a": 1}, True):
            body = json.dumps({"nickname": bad}).encode()
            refused = program.patch(path, content=body, headers={**lou, "Content-Type": "application/json"})
            assert (refused.status_code, refused.json()["code"]) == (400, "invalid"), bad
            assert [error["field"] for error in refused.json()["errors"]] == ["nickname"]
        no_objects: tuple[object, ...] = ([], "x", 7)
        for no_object in no_objects:
            assert program.patch(path, json=no_object, headers=lou).status_code == 400
        exported = program.get("/api/v1/access/me/export", headers=kim).json()
        assert exported["sections"]["project_profile"] == [{"nickname": "Kim"}]
    with sqlite3.connect(project / "var" / "ironauth.sqlite3") as database:
        assert database.execute("SELECT nickname FROM shop_profile WHERE user_id = ?", [OLD_PERSON]).fetchone() == (
            "Old",
        )
    database.close()


def test_an_api_view_of_the_project_takes_access_tokens(served: str) -> None:
    """The token of a sign-in by the API opens it; none, a changed one, and one that was revoked do not."""
    person = {"email": "tom@example.com", "password": PASSWORD}
    with httpx.Client(base_url=served, timeout=30) as program:
        assert program.post("/api/v1/access/signup", json=person).status_code in (201, 202)
        token = program.post("/api/v1/access/signin", json=person).json()["access_token"]
        right = {"Authorization": f"Bearer {token}"}
        shown = program.get("/api/orders", headers=right)
        assert (shown.status_code, shown.json()) == (200, {"orders": []})
        assert program.get("/api/orders").status_code == 401
        wrong = program.get("/api/orders", headers={"Authorization": f"Bearer {token[:-4]}AAAA"})
        assert (wrong.status_code, wrong.json()["code"]) == (401, "invalid_token")
        assert program.post("/api/v1/access/logout", headers=right).status_code == 204
        assert program.get("/api/orders", headers=right).status_code == 401
