"""The Helm chart: Helm renders it, the API's schemas take it, and its numbers are those of the product."""

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands, load_command_class
from jsonschema import Draft7Validator  # type: ignore[import-untyped]  # no stubs among the requirements

from ironauth import health_probe
from ironauth.config import table
from ironauth.server import graceful
from ironauth.tests.deploy.files import DEPLOY
from ironauth.tests.deploy.helm import CHART, CLUSTER, EVERYTHING, LEAST, documents, helm, pods, programs, rendered
from ironauth.tests.docs.blocks import Guide
from ironauth.tests.docs.shell import shell
from ironauth.tests.docs.test_sizing import MOST_LIVE, constants
from ironauth.version import VERSION

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
#: The oldest that Chart.yaml takes, and the newest whose schemas there are.
KUBERNETES = ("1.27", "1.32", "1.37")
CASES = {"least": LEAST, "everything": EVERYTHING}


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as Helm merges them: maps by their keys, everything else replaced."""
    return {
        **base,
        **{
            name: merged(base[name], value) if isinstance(value, dict) and isinstance(base.get(name), dict) else value
            for name, value in over.items()
        },
    }


def test_the_chart_has_the_version_of_the_product() -> None:
    """Chart and application have one version."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    assert chart["kubeVersion"] == f">={KUBERNETES[0]}.0-0"


def test_no_secret_can_be_a_value() -> None:
    """The names that `settings` may have are without each that holds a secret, and no value has a default for one."""
    names = set(SCHEMA["properties"]["settings"]["propertyNames"]["enum"])
    secret = {setting.name for setting in table.SETTINGS.values() if setting.secret}
    assert {"SECRET_KEY", "IRONAUTH_MASTER_KEYS", "IRONAUTH_PASSWORD_PEPPERS", "DATABASE_URL"} <= secret
    assert {name for name in table.SETTINGS if re.search("SECRET|PEPPER|MASTER|TOKEN$|^[A-Z]+_URL$", name)} <= secret
    assert not names & secret
    assert DEFAULTS["existingSecrets"] == []
    assert "kind: Secret" not in "".join(path.read_text() for path in (CHART / "templates").iterdir())


def test_every_value_is_in_the_schema() -> None:
    """The schema knows each value that has a default, and takes the defaults together with what is required."""
    assert DEFAULTS.keys() == SCHEMA["properties"].keys() - {"global"}
    for values in (LEAST, EVERYTHING):
        assert [error.message for error in Draft7Validator(SCHEMA).iter_errors(merged(DEFAULTS, values))] == []


REFUSED: dict[str, Mapping[str, Any]] = {
    "no issuer": {"issuer": ""},
    "an issuer without TLS": {"issuer": "http://id.example.com"},
    "an issuer with a path": {"issuer": "https://id.example.com/login"},
    "no secret": {"existingSecrets": []},
    "a secret among the settings": {"settings": {"SECRET_KEY": "x" * 50}},
    "a database among the settings": {"settings": {"DATABASE_URL": "postgres://u:p@db/ironauth"}},
    "a setting that there is not": {"settings": {"IRONAUTH_STAF_MFA": "required"}},
    "a setting of the chart": {"settings": {"DEBUG": "1"}},
    "a number that Helm would change": {"settings": {"IRONAUTH_SESSION_ABSOLUTE_S": 2592000}},
    "a value that there is not": {"replicas": 3},
    "an ingress without a certificate": {"trustedProxies": ["10.0.0.0/8"], "ingress": {"enabled": True}},
    "an ingress that nobody trusts": {"ingress": {"enabled": True, "tlsSecret": "tls"}},
    "a policy that lets nobody in": {"networkPolicy": {"enabled": True, "egress": [{"to": []}]}},
    "a policy that lets nothing out": {"networkPolicy": {"enabled": True, "from": [{"podSelector": {}}]}},
    "a budget of nobody": {"podDisruptionBudget": {"maxUnavailable": 0}},
    "a tag as a digest": {"image": {"digest": "0.3.0"}},
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_refused(case: str) -> None:
    """The schema names the error."""
    values = merged(DEFAULTS, merged(LEAST, REFUSED[case]))
    assert list(Draft7Validator(SCHEMA).iter_errors(values))


@pytest.mark.live
def test_helm_refuses_by_the_schema(tmp_path: Path) -> None:
    """Helm itself holds values against the schema, and makes nothing of those that are wrong."""
    for case in REFUSED.values():
        done = helm("template", "login", CHART, *CLUSTER, values=merged(LEAST, case), folder=tmp_path)
        assert done.returncode != 0
        assert "values don't meet the specifications of the schema" in done.stderr
        assert done.stdout == ""


@pytest.mark.live
@pytest.mark.parametrize("case", CASES)
def test_helm_finds_nothing_to_say(case: str, tmp_path: Path) -> None:
    """`helm lint --strict` has no warning."""
    done = helm("lint", "--strict", CHART, values=CASES[case], folder=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "0 chart(s) failed" in done.stdout
    assert "[WARNING]" not in done.stdout


@pytest.mark.live
@pytest.mark.parametrize("case", CASES)
def test_the_api_takes_every_document(case: str, tmp_path: Path) -> None:
    """The schemas of the oldest, a middle and the newest Kubernetes know every field of every document."""
    file = tmp_path / "all.yaml"
    file.write_text(rendered(CASES[case], tmp_path), encoding="utf-8")
    kinds = {kind for kind, _ in documents(file.read_text())}
    always = {"ConfigMap", "CronJob", "Deployment", "Job", "PodDisruptionBudget", "Service", "ServiceAccount"}
    asked_for = {"HorizontalPodAutoscaler", "Ingress", "NetworkPolicy"}
    assert kinds == (always if case == "least" else always | asked_for)
    for version in KUBERNETES:
        assert validated(file, version) == (0, 8 if case == "least" else 12)


@pytest.mark.live
def test_the_validation_sees_a_wrong_field(tmp_path: Path) -> None:
    """A field that the API does not have, and a number where a text belongs, are errors."""
    text = rendered(LEAST, tmp_path)
    for wrong in (text.replace("minReadySeconds:", "minReadySecond:"), text.replace('DEBUG: "0"', "DEBUG: 0")):
        assert wrong != text
        (tmp_path / "wrong.yaml").write_text(wrong, encoding="utf-8")
        assert validated(tmp_path / "wrong.yaml", KUBERNETES[-1])[0] == 1


def validated(file: Path, version: str) -> tuple[int, int]:
    """Return how the validation ended, and how many documents passed."""
    program = programs() / "python" / "bin" / "kubernetes-validate"
    done = subprocess.run(
        [program, "--strict", "--kubernetes-version", version, file], capture_output=True, text=True, check=False
    )
    return done.returncode, len(re.findall(r"^INFO .* passed", done.stdout + done.stderr, re.MULTILINE))


@pytest.mark.live
@pytest.mark.parametrize("case", CASES)
def test_every_container_runs_as_the_image_is_made(case: str, tmp_path: Path) -> None:
    """User 10001 without a right, on a read-only file system, with the volume that the image names, and no account."""
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    user = re.search(r"^USER (\d+):(\d+)$", dockerfile, re.MULTILINE)
    volume = re.search(r'^VOLUME \["([^"]+)"\]$', dockerfile, re.MULTILINE)
    assert user
    assert volume
    found = documents(rendered(CASES[case], tmp_path))
    assert found["ServiceAccount", "login-ironauth"]["automountServiceAccountToken"] is False
    specifications = pods(found.values())
    assert len(specifications) == (4 if case == "least" else 5)
    for pod in specifications.values():
        security = pod["securityContext"]
        assert (security["runAsUser"], security["runAsGroup"]) == (int(user[1]), int(user[2]))
        assert security["runAsNonRoot"] is True
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
            }  # fmt: skip
            mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            assert {"name": mounts[volume[1]], "emptyDir": {"sizeLimit": "256Mi"}} in pod["volumes"]
            command, *arguments = container["args"]
            load_command_class(get_commands()[command], command).create_parser("manage.py", command).parse_args(
                arguments
            )
            assert "memory" in container["resources"]["limits"]


@pytest.mark.live
@pytest.mark.parametrize("case", CASES)
def test_a_pod_is_asked_no_more_before_it_ends(case: str, tmp_path: Path) -> None:
    """It waits while it leaves the endpoints, and is killed only after the server's own end; no pod is missing."""
    spec = documents(rendered(CASES[case], tmp_path))["Deployment", "login-ironauth"]["spec"]
    pod = spec["template"]["spec"]
    (server,) = pod["containers"]
    waits = re.fullmatch(r"import time; time\.sleep\((\d+)\)", server["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert waits
    assert int(waits[1]) == merged(DEFAULTS, CASES[case])["drainSeconds"]
    assert pod["terminationGracePeriodSeconds"] >= int(waits[1]) + math.ceil(graceful.END_S) + 5
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


@pytest.mark.live
@pytest.mark.parametrize("case", CASES)
def test_the_probes_ask_what_the_server_answers(case: str, tmp_path: Path) -> None:
    """Liveness asks about the process, readiness about its database, each by a name that the server answers to."""
    found = documents(rendered(CASES[case], tmp_path))
    (server,) = found["Deployment", "login-ironauth"]["spec"]["template"]["spec"]["containers"]
    assert server["ports"][0]["containerPort"] == health_probe.PORT
    assert str(health_probe.PORT) in server["args"]
    hosts = found["ConfigMap", "login-ironauth"]["data"]["ALLOWED_HOSTS"].split(",")
    for probe, path in {"startup": "/health/live", "liveness": "/health/live", "readiness": "/health"}.items():
        asked = server[f"{probe}Probe"]["httpGet"]
        assert (asked["path"], asked["port"]) == (path, "http")
        assert asked["httpHeaders"] == [{"name": "Host", "value": hosts[0]}]
    assert server["readinessProbe"]["timeoutSeconds"] > 2  # what /health takes when the database is gone


@pytest.mark.live
@pytest.mark.parametrize("case", CASES)
def test_the_resources_are_those_of_the_sizing_page(case: str, tmp_path: Path) -> None:
    """Memory is what the page computes for so many workers with every token they keep, and for the hashes."""
    given = merged(DEFAULTS, CASES[case])
    (server,) = pods(documents(rendered(CASES[case], tmp_path)).values())["login-ironauth"]["containers"]
    cost = constants()
    mib = given["workers"] * (cost["worker"] + MOST_LIVE * cost["token"] / 1_024)
    mib += given["hashThreads"] * cost["hashing"]
    requested = int(server["resources"]["requests"]["memory"].removesuffix("Mi"))
    assert mib <= requested <= mib * 1.02
    assert server["resources"]["limits"] == {"memory": f"{requested * 3 // 2}Mi"}
    assert server["resources"]["requests"]["cpu"] == str(given["workers"])
    assert server["args"][-1] == str(given["workers"])


@pytest.mark.live
def test_settings_reach_every_process(tmp_path: Path) -> None:
    """Who serves and who tidies up has ConfigMap and Secrets; the Job, which comes before it, the same texts."""
    found = documents(rendered(EVERYTHING, tmp_path))
    settings = found["ConfigMap", "login-ironauth"]["data"]
    assert settings == {
        "ALLOWED_HOSTS": "id.example.com,login.example.com", "DEBUG": "0", "IRONAUTH_HASH_THREADS": "3",
        "IRONAUTH_ISSUER": "https://id.example.com:8443", "IRONAUTH_MAIL_DELIVERY": "worker",
        "IRONAUTH_SESSION_ABSOLUTE_S": "2592000", "IRONAUTH_STAFF_MFA": "required",
        "IRONAUTH_TRUSTED_PROXIES": "10.0.0.0/8,fd00::/8",
    }  # fmt: skip
    secrets = [{"secretRef": {"name": name}} for name in ("ironauth", "ironauth-database")]
    for name, pod in pods(found.values()).items():
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            if name == "login-ironauth-migrate":
                assert container["envFrom"] == secrets
                assert {each["name"]: each["value"] for each in container["env"]} == settings
            else:
                assert container["envFrom"] == [*secrets, {"configMapRef": {"name": "login-ironauth"}}]


@pytest.mark.live
def test_a_change_of_the_settings_renews_the_pods(tmp_path: Path) -> None:
    """The pods' template depends on the settings, and on nothing that is no setting."""

    def checksum(**values: Any) -> str:
        found = documents(rendered({**LEAST, **values}, tmp_path))["Deployment", "login-ironauth"]
        return str(found["spec"]["template"]["metadata"]["annotations"]["checksum/settings"])

    assert checksum() == checksum(replicaCount=5) != checksum(settings={"IRONAUTH_STAFF_MFA": "required"})


@pytest.mark.live
def test_tables_are_brought_up_to_date_before_new_pods(tmp_path: Path) -> None:
    """The Job runs before install and upgrade, tables first, then keys; what it needs of the chart is in itself."""
    job = documents(rendered(LEAST, tmp_path))["Job", "login-ironauth-migrate"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    pod = job["spec"]["template"]["spec"]
    assert [one["args"][0] for one in [*pod["initContainers"], *pod["containers"]]] == ["migrate", "create_signing_key"]
    assert "serviceAccountName" not in pod
    assert ("Job", "login-ironauth-migrate") not in documents(
        rendered({**LEAST, "migrations": {"enabled": False}}, tmp_path)
    )


@pytest.mark.live
def test_services_and_budgets_select_who_serves(tmp_path: Path) -> None:
    """Each selector finds the pods that serve and no others, even with a name as long as Helm takes."""
    done = helm("template", "a" * 53, CHART, *CLUSTER, values=EVERYTHING, folder=tmp_path)
    found = documents(done.stdout)
    templates = {
        key: one["spec"].get("jobTemplate", one)["spec"]["template"]["metadata"]["labels"]
        for key, one in found.items()
        if key[0] in ("Deployment", "Job", "CronJob")
    }
    selectors = [one["spec"]["selector"] for (kind, _), one in found.items() if kind == "Service"]
    selectors += [one["spec"]["selector"]["matchLabels"] for (kind, _), one in found.items() if "Budget" in kind]
    assert len(selectors) == 2
    for selector in selectors:
        chosen = [key for key, labels in templates.items() if selector.items() <= labels.items()]
        assert [kind for kind, _ in chosen] == ["Deployment"]
        assert not chosen[0][1].endswith("-mail")
    assert all(len(name) <= 52 for _, name in found)  # of a CronJob; others may have 63


@pytest.mark.live
def test_who_may_talk_is_what_the_values_say(tmp_path: Path) -> None:
    """The policy lets in what it names, on the server's port, and out to names and to what it names."""
    found = documents(rendered(EVERYTHING, tmp_path))
    policy = found["NetworkPolicy", "login-ironauth"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    given = EVERYTHING["networkPolicy"]
    assert policy["ingress"] == [{"from": given["from"], "ports": [{"port": "http", "protocol": "TCP"}]}]
    names = [{"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}]
    assert policy["egress"] == names + given["egress"]
    assert "replicas" not in found["Deployment", "login-ironauth"]["spec"]  # the autoscaler's


#: Stands in for Helm and kubectl where no cluster is: Helm renders what it would install, the other's words are kept.
STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >> "$KEPT/asked"
[ "$(basename "$0")" = helm ] || exit 0
case "$*" in "upgrade --install "*" --wait --timeout 10m") ;; *) exit 2 ;; esac
shift 2
name=$1; chart=$2; shift 2
exec "$HELM" template "$name" "$TREE/$chart" "$1" "$2" "$3" "$4" $CLUSTER > "$KEPT/all.yaml"
"""


@pytest.mark.live
def test_the_page_can_be_pasted(tmp_path: Path) -> None:
    """The file of secrets has what a start needs, and the release of the page is one that the API takes."""
    with Guide("docs/operate/kubernetes.md") as page:
        page.write(tmp_path, "ironauth.yaml")
        (tmp_path / "bin").mkdir()
        for name in ("helm", "kubectl"):
            (tmp_path / "bin" / name).write_text(STAND_IN)
            (tmp_path / "bin" / name).chmod(0o755)
        around = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "KEPT": str(tmp_path), "TREE": str(DEPLOY.parent)}
        around |= {"HELM": str(programs() / "helm"), "HOME": str(tmp_path), "CLUSTER": " ".join(CLUSTER)}
        for start in ("(umask 077", "helm upgrade", "kubectl --namespace identity rollout"):
            shell(page.block(start), tmp_path, **around)
    assert validated(tmp_path / "all.yaml", KUBERNETES[-1]) == (0, 10)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split()[0] for line in asked] == ["kubectl", "kubectl", "helm", "kubectl", "kubectl"]
    found = documents((tmp_path / "all.yaml").read_text())
    assert ("Deployment", "ironauth") in found
    assert all(words[-1] == "deploy/ironauth" for words in (asked[3].split(" -- ")[0].split(), asked[4].split()))
    secrets = dict(line.split("=", 1) for line in (tmp_path / "ironauth.env").read_text().splitlines())
    assert all(table.SETTINGS[name].secret for name in secrets)
    assert (tmp_path / "ironauth.env").stat().st_mode & 0o077 == 0
    given = {**secrets, **found["ConfigMap", "ironauth"]["data"]}
    started = start_with(given)
    assert started == ""


def start_with(environment: Mapping[str, str]) -> str:
    """Return what the settings say to these variables, nothing where they take them."""
    done = subprocess.run(
        [sys.executable, "-c", "import ironauth.settings"], cwd=DEPLOY.parent, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "IRONAUTH_ENV_FILE": os.devnull, **environment}, check=False,
    )  # fmt: skip
    return done.stderr[-500:]
