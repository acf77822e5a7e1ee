"""The figures of all workers of a server as Prometheus' text, merged when they are asked for."""

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from ironauth.infrastructure.telemetry.metrics import Recorder
from ironauth.infrastructure.telemetry.metrics_catalogue import BUCKETS_S, CATALOGUE, DURATIONS, REQUESTS, WORKER
from ironauth.infrastructure.telemetry.metrics_files import Figures, read_all
from ironauth.version import VERSION

_ENDS: Final = [*(f"{end:g}" for end in BUCKETS_S), "+Inf"]
NOT_OFFERED: Final = "405"
type Merged = dict[str, dict[tuple[str, ...], list[int]]]


class _Workers(Collector):
    """Sums counters and histograms over all workers there ever were; gauges are those of each that lives."""

    def __init__(self, figures: list[Figures]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """Yield every metric there is, also those that nothing was counted for yet."""
        merged = _merged(self._figures)
        for name, metric in CATALOGUE.items():
            series = merged[name]
            labels = [*metric.labels, WORKER] if metric.kind == "gauge" else metric.labels
            family: Metric
            if metric.kind == "histogram":
                family = histogram = HistogramMetricFamily(name, metric.help_text, labels=labels)
                for values, slots in series.items():
                    counts = accumulate(slots[:-1])
                    histogram.add_metric(values, list(zip(_ENDS, counts, strict=True)), slots[-1] / metric.scale)
            else:
                family = plain = (GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily)(
                    name, metric.help_text, labels=labels
                )
                for values, slots in series.items():
                    plain.add_metric(values, slots[0] / metric.scale if metric.scale > 1 else slots[0])
            yield family
        alive = sum(one.alive for one in self._figures)
        yield GaugeMetricFamily("ironauth_workers", "Workers that run.", value=alive)
        build = GaugeMetricFamily("ironauth_build_info", "The release that answers.", labels=["version"])
        build.add_metric([VERSION], 1)
        yield build


def _merged(figures: list[Figures]) -> Merged:
    """Return the slots of every metric by its labels."""
    merged: Merged = {name: {} for name in CATALOGUE}
    for one in figures:
        for (name, *labels), found in list(one.series.items()):
            metric = CATALOGUE.get(name)
            if metric is None or metric.width != len(found):
                continue  # a worker of another release counts it
            if metric.kind == "gauge":
                if one.alive:
                    merged[name][(*labels, str(one.number))] = found
                continue
            before = merged[name].get(tuple(labels))
            merged[name][tuple(labels)] = found if before is None else _sum(before, found)
    _divide(merged)
    return merged


def _divide(merged: Merged) -> None:
    """Make of the histograms of each status the number of requests, and the histograms of all statuses together."""
    kept, merged[DURATIONS] = merged[DURATIONS], {}
    for labels, slots in kept.items():
        merged[REQUESTS][labels] = [sum(slots[:-1])]
        *shown, status = labels
        if status == NOT_OFFERED:
            continue
        before = merged[DURATIONS].get(tuple(shown))
        merged[DURATIONS][tuple(shown)] = slots if before is None else _sum(before, slots)


def _sum(one: list[int], other: list[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


def text_of(recorder: Recorder, folder: Path | None, *, accepted: str) -> tuple[bytes, str]:
    """Return the text and its media type; blocks for 10 ms.

    Args:
        recorder: Of this process; its figures are written to its file first.
        folder: Of the files of all workers; None where this process is the only one.
        accepted: The Accept field, of whose media types Prometheus' one is chosen.
    """
    recorder.flush()
    encode, media_type = choose_encoder(accepted)
    registry = CollectorRegistry()
    figures = [Figures(0, alive=True, series=recorder.series)] if folder is None else read_all(folder)
    registry.register(_Workers(figures))
    return encode(registry), media_type
