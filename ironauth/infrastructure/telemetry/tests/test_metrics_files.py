"""The dashboard and the alert rules ask for what there is."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from ironauth.infrastructure.telemetry.metrics_catalogue import CATALOGUE, WORKER

DEPLOY = Path(settings.BASE_DIR) / "deploy"
#: Of Prometheus itself, or of every target.
THEIR_LABELS = {"job", "instance", "le", "quantile"}
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
EXTRA = {"ironauth_workers": set[str](), "ironauth_build_info": {"version"}}
SELECTOR = re.compile(r"\b(ironauth_\w+|up)(?:\{(.*?)\})?(?=[\[\s)]|$)")
#: What a label is compared with: quoted, and it may hold braces.
MATCHER = re.compile(r"(\w+)(?:=~|!~|!=|=)\"[^\"]*\"")
BY = re.compile(r"\bby \(([\w, ]+)\)")


def _series() -> dict[str, set[str]]:
    """Return the labels of every series by its name in the text."""
    found = dict(EXTRA)
    for name, metric in CATALOGUE.items():
        labels = {*metric.labels, *([WORKER] if metric.kind == "gauge" else [])}
        found.update({f"{name}{suffix}": labels for suffix in SUFFIXES[metric.kind]})
    return found


def _dashboard() -> dict[str, Any]:
    return dict(json.loads((DEPLOY / "grafana" / "ironauth.json").read_text(encoding="utf-8")))


def _rules() -> list[dict[str, Any]]:
    file = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))
    return [rule for group in file["groups"] for rule in group["rules"]]


EXPRESSIONS = [
    *(target["expr"] for panel in _dashboard()["panels"] for target in panel.get("targets", ())),
    *(rule["expr"] for rule in _rules()),
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_query_names_metrics_and_labels_there_are(expression: str) -> None:
    """A metric that was renamed, or a label it never had, would be an empty panel or an alert that never comes."""
    series = _series()
    selectors = SELECTOR.findall(expression)
    assert selectors
    labels = set(THEIR_LABELS)
    for name, matchers in selectors:
        if name == "up":
            continue
        assert name in series
        assert set(MATCHER.findall(matchers)) <= series[name] | THEIR_LABELS
        labels |= series[name]
    for names in BY.findall(expression):
        assert set(names.split(", ")) <= labels


def test_every_metric_is_on_the_dashboard() -> None:
    """What is counted can be seen."""
    text = " ".join(EXPRESSIONS)
    assert not [name for name in CATALOGUE if name not in text]


def test_the_dashboard_is_one_that_grafana_imports() -> None:
    """Ids are unique, panels lie side by side within 24 columns, and the data source is chosen at the import."""
    board = _dashboard()
    panels = board["panels"]
    assert board["uid"] == "ironauth"
    assert board["schemaVersion"] >= 36
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    assert [variable["name"] for variable in board["templating"]["list"]] == ["datasource", "job", "instance"]


def test_every_alert_says_what_to_do() -> None:
    """Name, severity, summary and runbook are there; names are unique."""
    rules = _rules()
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["runbook"].endswith(".")


def test_the_scrape_job_is_the_one_the_rules_mean() -> None:
    """The sample's job name and path are those of the rules and the server, and it sends a token over TLS."""
    (job,) = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    assert (job["job_name"], job["metrics_path"], job["scheme"]) == ("ironauth", "/metrics", "https")
    assert "credentials_file" in job["authorization"]
    assert all('job="ironauth"' in rule["expr"] for rule in _rules())
