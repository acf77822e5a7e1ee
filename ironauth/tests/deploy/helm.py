"""The Helm chart of deploy/helm as the tests render it, by the real Helm."""

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from ironauth.tests.deploy.files import DEPLOY

CHART: Final = DEPLOY / "helm" / "ironauth"
#: What the smallest installation has to say.
LEAST: Final[Mapping[str, Any]] = {"issuer": "https://id.example.com", "existingSecrets": ["ironauth"]}
#: Everything that can be switched on, and what has a default the other way.
EVERYTHING: Final[Mapping[str, Any]] = {
    **LEAST,
    "issuer": "https://id.example.com:8443",
    "existingSecrets": ["ironauth", "ironauth-database"],
    "extraHosts": ["login.example.com"],
    "settings": {"IRONAUTH_STAFF_MFA": "required", "IRONAUTH_SESSION_ABSOLUTE_S": "2592000"},
    "trustedProxies": ["10.0.0.0/8", "fd00::/8"],
    "image": {"repository": "registry.example.com/ironauth", "digest": "sha256:" + "a" * 64},
    "imagePullSecrets": [{"name": "registry"}],
    "workers": 4,
    "hashThreads": 3,
    "drainSeconds": 20,
    "podDisruptionBudget": {"maxUnavailable": "25%"},
    "autoscaling": {"enabled": True},
    "mailWorker": {"enabled": True},
    "service": {"type": "LoadBalancer", "annotations": {"example.com/a": "b"}},
    "ingress": {
        "enabled": True, "className": "nginx", "tlsSecret": "id-example-com", "annotations": {"example.com/c": "true"},
    },
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}}],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/24"}}], "ports": [{"port": 5432, "protocol": "TCP"}]}],
    },
    "serviceAccount": {"annotations": {"example.com/role": "ironauth"}},
    "podAnnotations": {"prometheus.io/scrape": "true"},
    "podLabels": {"team": "identity"},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"team": "identity"}}}
    ]}},
    "priorityClassName": "high",
    "extraVolumes": [{"name": "breached", "persistentVolumeClaim": {"claimName": "breached", "readOnly": True}}],
    "extraVolumeMounts": [{"name": "breached", "mountPath": "/srv/breached", "readOnly": True}],
}  # fmt: skip
#: What `helm template` takes the cluster for, which it does not ask.
CLUSTER: Final = ("--kube-version", "1.32.0")
_PATIENCE_S = 60


def programs() -> Path:
    """Return the folder of Helm and kubernetes-validate; without them skip.

    Compiling Helm takes four minutes of a core: `make chart` does, and then fails where it is not there.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = cache / "ironauth-tests" / "helm"
    if not (found / "known").exists():
        what = "not installed: Helm; `make chart` makes it, or says what is missing"
        if os.environ.get("IRONAUTH_TEST_CHART") == "yes":
            pytest.fail(what)
        pytest.skip(what)
    return found


def helm(*arguments: str | Path, values: Mapping[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Helm on the chart with these values; it sees no cluster.

    Args:
        *arguments: Its command, and what follows the chart's folder is not needed.
        values: Of the release.
        folder: Where Helm may write.
    """
    given = folder / "values.yaml"
    given.write_text(yaml.safe_dump(dict(values)), encoding="utf-8")
    nowhere = {name: str(folder) for name in ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
    return subprocess.run(
        [programs() / "helm", *arguments, "--values", given],
        env={"PATH": os.environ["PATH"], "KUBECONFIG": str(folder / "none"), **nowhere},
        capture_output=True, text=True, timeout=_PATIENCE_S, check=False,
    )  # fmt: skip


def rendered(values: Mapping[str, Any], folder: Path) -> str:
    """Return the documents that Helm makes of the chart with these values.

    Args:
        values: Of the release.
        folder: Where Helm may write.
    """
    done = helm("template", "login", CHART, *CLUSTER, "--namespace", "identity", values=values, folder=folder)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


def documents(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return rendered documents by their kind and name."""
    found = [one for one in yaml.safe_load_all(text) if one]
    named = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(named) == len(found)
    return named


def pods(found: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the specifications of pods that documents have, by the names of the documents."""
    specifications = {}
    for one in found:
        spec = one.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            specifications[one["metadata"]["name"]] = spec["template"]["spec"]
    return specifications
