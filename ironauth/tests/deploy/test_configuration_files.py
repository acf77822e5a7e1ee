"""nginx, PgBouncer, Postgres and the units: numbers that depend on each other agree, and units take what they can."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from django.core.management import get_commands, load_command_class

from ironauth.infrastructure.http import guard
from ironauth.server import server
from ironauth.tests.deploy.files import DEPLOY, unit, with_changes

UNITS = sorted(path.name for path in (DEPLOY / "systemd").iterdir())
SERVICES = [name for name in UNITS if name.endswith(".service")]
HASH_WORKER = "ironauth-hashworker.service"
#: systemd's own measure, 0 to 10: "OK" begins below 4; a service with every door open has 9.6.
MOST_EXPOSED = 2.0


def _number(file: str, name: str) -> int:
    """Return the number after ``name`` in a file of deploy/, without its unit."""
    found = re.search(rf"^\s*{name}\s*=?\s*(\d+)", (DEPLOY / file).read_text(), re.MULTILINE)
    assert found, (file, name)
    return int(found[1])


def test_postgres_has_room_for_poolers_and_people() -> None:
    """PgBouncer's connections leave some for backups, and it waits for one as long as somebody waits for it."""
    most = _number("postgres/postgresql.conf", "max_connections")
    kept = _number("postgres/postgresql.conf", "superuser_reserved_connections")
    assert _number("pgbouncer/pgbouncer.ini", "max_db_connections") + kept + 10 <= most
    assert _number("pgbouncer/pgbouncer.ini", "default_pool_size") <= _number(
        "pgbouncer/pgbouncer.ini", "max_db_connections"
    )
    assert _number("pgbouncer/pgbouncer.ini", "query_wait_timeout") >= 1.5  # IRONAUTH_DATABASE_TIMEOUT_S
    assert _number("pgbouncer/pgbouncer.ini", "idle_transaction_timeout") < _number(
        "postgres/postgresql.conf", "idle_in_transaction_session_timeout"
    )


def test_patroni_sets_postgres_as_the_file_for_one_machine_does() -> None:
    """Durability and a log without data of people are the same; it has room for two nodes of four workers."""
    written = (DEPLOY / "postgres" / "postgresql.conf").read_text(encoding="utf-8")
    one = {name: value.strip("'") for name, value in re.findall(r"^(\w+) = (\S+)", written, re.MULTILINE)}
    kit = yaml.safe_load((DEPLOY / "patroni" / "patroni.yml").read_text(encoding="utf-8"))
    several = {name: str(value) for name, value in kit["bootstrap"]["dcs"]["postgresql"]["parameters"].items()}
    assert {name: several[name] for name in one} == one | {"max_connections": several["max_connections"]}
    workers, each, reserved = 2 * 4 + 1, 8 + 5, 3 + 10  # one more while a worker is renewed
    assert workers * each + reserved <= int(several["max_connections"])


def test_nginx_and_the_server_agree() -> None:
    """The proxy (nginx) closes kept connections first, and lets the server refuse what is too large for it."""
    text = (DEPLOY / "nginx" / "ironauth.conf").read_text()
    upstream = text.partition("upstream ironauth {")[2].partition("}")[0]
    kept = re.search(r"keepalive_timeout (\d+)s;", upstream)
    assert kept
    assert int(kept[1]) < server.KEEP_ALIVE_S
    assert _number("nginx/ironauth.conf", "client_max_body_size") * 1024 > guard.PAGE_BODY_BYTES
    assert _number("nginx/ironauth.conf", "client_body_buffer_size") * 1024 >= guard.API_BODY_BYTES
    assert _number("nginx/proxy.conf", "proxy_read_timeout") > server.GRACEFUL_S


@pytest.mark.parametrize(
    ("address", "counted_as"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:"),
        ("2001:db8:1:2::6", "2001:db8:1:2:"),
        ("2001:db8:1::6", "2001:db8:1:"),
        ("2001:db8::6", "2001:db8:"),
        ("::1", "::1"),
    ],
)
def test_an_ipv6_network_has_one_count(address: str, counted_as: str) -> None:
    """The expressions of the map, in their order: the first four groups, or those before the ``::``."""
    block = (DEPLOY / "nginx" / "ironauth.conf").read_text().partition('$remote_addr" $ironauth_network {')[2]
    rules = re.findall(r'^\s*"~(\^.*)" (\S+);', block.partition("\n}")[0], re.MULTILINE)
    assert [value for _, value in rules] == ['""', "$ironauth_64", "$ironauth_wider"]
    for known, expected in (("0", counted_as), ("1", '""')):
        found = address
        for rule, value in rules:
            if match := re.search(rule.replace("(?<", "(?P<"), f"{known} {address}"):
                found = match[value.removeprefix("$")] if value.startswith("$") else value
                break
        assert found == expected


@pytest.mark.parametrize(
    ("address", "counted_as"),
    [
        ("192.0.2.7", '""'),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:"),
        ("2001:db8:1::6", "2001:db8:1:"),
        ("2001:db8::6", "2001:db8:"),
        ("2001::6", "2001:"),
        ("::1", '""'),
    ],
)
def test_a_rented_48_has_one_count(address: str, counted_as: str) -> None:
    """The first three groups, or those before the ``::``; nothing for IPv4, and for gateways of our own."""
    text = (DEPLOY / "nginx" / "ironauth.conf").read_text()
    block = text.partition('$remote_addr" $ironauth_site {')[2].partition("\n}")[0]
    rules = re.findall(r'^\s*"~(\^.*)" (\S+);', block, re.MULTILINE)
    assert [value for _, value in rules] == ["$ironauth_48", "$ironauth_wider_48"]
    for known, expected in (("0", counted_as), ("1", '""')):
        matches = [re.search(rule.replace("(?<", "(?P<"), f"{known} {address}") for rule, _ in rules]
        found = next((match[1] for match in matches if match), '""')
        assert found == expected


def test_every_limit_of_a_48_is_in_force_at_ten_times() -> None:
    """Each zone counts by its own key, and the server asks it: its rate, burst and connections are the /64's by ten."""
    text = (DEPLOY / "nginx" / "ironauth.conf").read_text()
    zones = re.findall(r"^limit_(?:req|conn)_zone \$ironauth_(\w+) +zone=ironauth_(\w+):", text, re.MULTILINE)
    assert {zone: key for key, zone in zones} == {
        "any": "network", "costly": "costly", "connections": "network",
        "any_site": "site", "costly_site": "costly_site", "connections_site": "site",
    }  # fmt: skip
    rates = dict(re.findall(r"zone=(\w+):10m rate=(\d+)r/s;", text))
    bursts = dict(re.findall(r"^    limit_req zone=(\w+) burst=(\d+) nodelay;", text, re.MULTILINE))
    connections = dict(re.findall(r"^    limit_conn (\w+) (\d+);", text, re.MULTILINE))
    for limits, count in ((rates, 2), (bursts, 2), (connections, 1)):
        narrow = {zone for zone in limits if not zone.endswith("_site")}
        assert len(narrow) == count
        assert {zone: int(limits[zone]) for zone in limits.keys() - narrow} == {
            f"{zone}_site": 10 * int(limits[zone]) for zone in narrow
        }


@pytest.mark.parametrize("name", SERVICES)
def test_units_start_what_there_is(name: str) -> None:
    """The command exists and takes its arguments; the server's limits fit to its own."""
    lines = dict(unit(name))
    interpreter, script, command, *arguments = lines["ExecStart"].split()
    assert (interpreter, script) == ("/opt/ironauth/.venv/bin/python", "manage.py")
    load_command_class(get_commands()[command], command).create_parser(script, command).parse_args(arguments)
    has_secrets = ("Environment", "IRONAUTH_ENV_FILE=/etc/ironauth/env") in unit(name)
    assert has_secrets == (name != HASH_WORKER)
    if name == HASH_WORKER:  # its files are those that it is given
        given = {f"%d/{value.partition(':')[0]}" for key, value in unit(name) if key == "LoadCredential"}
        assert given == {each for each in arguments if each.startswith("%d/")} != set()
        assert (lines["DynamicUser"], "User" in lines, "EnvironmentFile" in lines) == ("yes", False, False)
    if name == "ironauth.service":
        assert lines["ExecReload"] == "/bin/kill -HUP $MAINPID"
        assert int(lines["LimitNOFILE"]) >= server.MAX_REQUESTS + server.RESERVED_FILES
        assert int(lines["TimeoutStopSec"]) > server.GRACEFUL_S
        assert arguments == ["--uds", f"/run/{lines['RuntimeDirectory']}/web.sock"]
    timer = name.replace(".service", ".timer")
    assert (timer in UNITS) == (lines["Type"] == "oneshot")


def test_systemd_understands_every_line_and_finds_little_to_attack(tmp_path: Path) -> None:
    """``systemd-analyze verify`` says nothing; ``security`` rates each service at most 2.0 of 10."""
    program = shutil.which("systemd-analyze")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("systemd-analyze is not installed (Debian: apt install systemd)")
        pytest.skip("systemd-analyze is not installed (Debian: apt install systemd)")
    for name in UNITS:
        text = (DEPLOY / "systemd" / name).read_text()
        if name in SERVICES:  # what is not on this machine
            text = with_changes(text, ("/opt/ironauth/.venv/bin/python", sys.executable), ("/opt/ironauth", "/"))
            if name != HASH_WORKER:
                text = with_changes(text, ("User=ironauth\nGroup=ironauth\n", "User=daemon\nGroup=daemon\n"))
        (tmp_path / name).write_text(text)
    verified = subprocess.run(
        [program, "verify", "--man=no", *(str(tmp_path / name) for name in UNITS)],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    ours = [line for line in verified.stderr.splitlines() if "ironauth" in line]
    assert (verified.returncode, ours) == (0, []), verified.stderr
    for name in SERVICES:
        rated = subprocess.run(
            [program, "security", "--offline=true", f"--threshold={MOST_EXPOSED * 10:.0f}", str(tmp_path / name)],
            check=False, capture_output=True, text=True, env={**os.environ, "SYSTEMD_PAGER": ""},
        )  # fmt: skip
        assert rated.returncode == 0, rated.stdout[-500:] + rated.stderr
