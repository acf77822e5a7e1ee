"""The Compose files: whatever they name is there, and no service may do more than it has to."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands, load_command_class

from ironauth import health_probe
from ironauth.config.tests.test_env_example import LINE
from ironauth.tests.deploy.files import DEPLOY

NAMES = ["compose.yaml", "compose.dev.yaml", "compose.hashworker.yaml"]
#: Made by make-secrets.sh, and by anybody who certifies: not in the repository.
MADE_LATER = ("secrets/", "tls")


class _Strict(yaml.SafeLoader):
    """Refuses a key that stands twice, of which YAML takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if key.value != "<<"]
        assert len(keys) == len(set(keys)), keys
        return super().construct_mapping(node, deep)


@pytest.fixture(params=NAMES)
def compose(request: pytest.FixtureRequest) -> dict[str, Any]:
    """One of the files; merged keys are in place."""
    return _read(request.param)


@pytest.fixture
def production() -> dict[str, Any]:
    """The services of the production file."""
    return dict(_read("compose.yaml")["services"])


def _read(name: str) -> dict[str, Any]:
    return dict(yaml.load((DEPLOY / name).read_text(), Loader=_Strict))  # noqa: S506 - a SafeLoader


def _mounts(service: dict[str, Any]) -> list[tuple[str, str]]:
    return [tuple(each.split(":")[:2]) for each in service.get("volumes", ())]


def test_what_services_name_is_declared(compose: dict[str, Any]) -> None:
    """Every network, volume, secret, dependency and mounted file exists; nothing is declared for nobody."""
    services = compose["services"]
    used: dict[str, set[str]] = {"networks": set(), "volumes": set(), "secrets": set()}
    for service in services.values():
        used["networks"].update(service.get("networks", ()))
        used["secrets"].update(service.get("secrets", ()))
        assert set(service.get("depends_on", {})) <= set(services)
        sources = [source for source, _ in _mounts(service)]
        used["volumes"].update(source for source in sources if not source.startswith("."))
        files = [source.removeprefix("./") for source in sources if source.startswith("./")]
        assert all((DEPLOY / file).exists() for file in files if not file.startswith(MADE_LATER)), files
    for kind, names in used.items():
        assert set(compose.get(kind, {})) == names, kind


def test_who_is_waited_for_can_be_healthy(production: dict[str, Any]) -> None:
    """A dependency on health needs a health check that is not switched off."""
    for service in production.values():
        for name, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert "test" in production[name]["healthcheck"], name


def test_no_service_may_do_more_than_it_has_to(production: dict[str, Any]) -> None:
    """Read-only, without capabilities, never root, and only nginx is reached from outside."""
    for name, service in production.items():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "cap_add", "pid", "ipc", "devices"} & set(service), name
        assert ("ports" in service) == (name == "nginx"), name
        if "build" not in service:
            user, _, group = service["user"].partition(":")
            assert user.isdecimal(), name
            assert int(user) * int(group) > 0, name
    storage = [name for name, service in production.items() if "storage" in service.get("networks", ())]
    assert sorted(storage) == ["housekeeping", "mail", "pgbouncer", "postgres", "server"]
    assert _read("compose.yaml")["networks"]["storage"] == {"internal": True}


def test_a_hash_worker_is_given_three_files_and_one_port() -> None:
    """No settings, no volume, no network of the servers: what it reads are its secrets, in a folder kept out of git."""
    whole = _read("compose.hashworker.yaml")
    (service,) = whole["services"].values()
    assert (service["read_only"], service["cap_drop"], service["security_opt"]) == (
        True,
        ["ALL"],
        ["no-new-privileges:true"],
    )
    assert not {"privileged", "cap_add", "env_file", "environment", "volumes", "networks", "user"} & set(service)
    command, *arguments = service["command"]
    options = load_command_class("ironauth", command).create_parser("manage.py", command).parse_args(arguments)
    read = [str(options.cert), str(options.key), str(options.ca)]
    assert read == [f"/run/secrets/{name}" for name in service["secrets"]]
    assert service["ports"] == [f"{options.port}:{options.port}"]
    assert service["healthcheck"] == {"disable": True}  # the image's asks for HTTP
    kept_out = (DEPLOY.parent / ".gitignore").read_text().splitlines()
    assert {str(Path(each["file"]).parent) for each in whole["secrets"].values()} == {"hashworker"}
    assert "/deploy/hashworker/" in kept_out


def test_images_built_here_are_not_roots() -> None:
    """Either Dockerfile ends as a user with a number."""
    for file in (DEPLOY / "Dockerfile", DEPLOY / "pgbouncer" / "Dockerfile"):
        users = [line.split()[1] for line in file.read_text().splitlines() if line.startswith("USER ")]
        assert int(users[-1].partition(":")[0]) > 0


def test_what_compiles_argon2_finds_its_modules(tmp_path: Path) -> None:
    """The image copies every module of ours that prints the build, before it copies the product."""
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ironauth/")]
    for name in (name for names in copied for name in names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((DEPLOY.parent / name).read_text())
    code = "import ironauth.infrastructure.hashing.argon2_build"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_development_is_for_this_machine() -> None:
    """Every published port is on loopback."""
    services = _read("compose.dev.yaml")["services"]
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_commands_exist_and_take_their_arguments(production: dict[str, Any]) -> None:
    """The server listens where nginx and the health check look."""
    command, *arguments = production["server"]["command"]
    options = load_command_class("ironauth", command).create_parser("manage.py", command).parse_args(arguments)
    assert (str(options.uds), options.migrate) == ("/run/ironauth/web.sock", True)
    assert "server unix:/run/ironauth/web.sock " in (DEPLOY / "nginx" / "ironauth.conf").read_text()
    check = production["server"]["healthcheck"]["test"]
    assert check[2:] == ["-m", health_probe.__name__, "/health", "/run/ironauth/web.sock"]
    assert production["mail"]["command"] == ["deliver_mail"]
    (loop,) = production["housekeeping"]["command"]
    assert "manage.py purge_expired;" in loop
    assert {"deliver_mail", "purge_expired", "rotate_signing_key"} <= set(get_commands())


def test_sockets_are_where_both_ends_look(production: dict[str, Any]) -> None:
    """Who speaks to Redis or to the server has the folder of the socket, and its group."""
    for target, names in (
        ("/run/ironauth", {"server", "nginx"}),
        ("/run/redis", {"server", "mail", "housekeeping", "valkey"}),
    ):
        assert {name for name, each in production.items() if target in [place for _, place in _mounts(each)]} == names
    groups = {production[name]["user"].partition(":")[2] for name in ("nginx", "valkey")}
    volumes = _read("compose.yaml")["volumes"]
    assert groups == {"10001"}  # the image's own user, deploy/Dockerfile
    assert all("gid=10001,mode=0750" in volumes[name]["driver_opts"]["o"] for name in ("web-socket", "redis-socket"))


def test_scripts_of_the_first_start_are_run_not_read() -> None:
    """Postgres' image reads a script without the executable bit into its own shell, which that would end."""
    listed = subprocess.run(
        ["git", "ls-files", "-s", "postgres/create-ironauth.sh"], cwd=DEPLOY, check=True, capture_output=True, text=True
    )
    assert listed.stdout.startswith("100755 ")


def test_no_variable_of_ours_is_misspelt(production: dict[str, Any]) -> None:
    """What the product reads is in env.example; the rest belongs to Postgres' image and our own script."""
    known = {match[1] for line in (DEPLOY / "env.example").read_text().splitlines() if (match := LINE.match(line))}
    script = (DEPLOY / "postgres" / "create-ironauth.sh").read_text()
    for service in production.values():
        for name in service.get("environment", {}):
            assert name in known or name.startswith("POSTGRES_") or name in script, name
    assert Path(production["server"]["env_file"]) == Path("secrets/env")
