"""Metrics with fixed labels and structured logs, both free of queries, arguments, results and tokens."""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from extproc.settings import Telemetry
from extproc.tallies import SECONDS, Decisions

logger = logging.getLogger("extproc")


class Metrics:
    """Every metric of the processor.  Label values come from the code, never from a peer.

    Exchanges are counted by their ``outcome``: ``passed`` (nothing was changed), ``forwarded`` (the request
    or the response was read or changed), ``replied`` (answered locally), ``failed`` (an internal error was
    answered), ``late`` (so was the deadline), ``refused`` (too many at once, an unknown profile, a message
    over a limit), ``malformed`` (nothing could be made of a message), ``cancelled`` (the gateway left first).
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.exchanges = Counter(
            "toolsearch_exchanges",
            "Exchanges ended, by gateway dialect and outcome.",
            ["dialect", "outcome"],
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "toolsearch_exchanges_in_flight", "Exchanges open now.", registry=self.registry
        )
        self.decisions = Decisions(
            {"request": ("pass_through", "forward", "reply"), "response": ("keep", "replace")}
        )
        self.registry.register(self.decisions)
        self.warnings = Counter(
            "toolsearch_warnings",
            "Times something was met that a setting has to mend.",
            ["setting"],
            registry=self.registry,
        )
        self.refusals = Counter(
            "toolsearch_refusals", "Requests refused, by reason.", ["reason"], registry=self.registry
        )
        self.catalogue_builds = Counter(
            "toolsearch_catalogue_builds",
            "Catalogues built from a tool list, by outcome (built, shared, rejected).",
            ["outcome"],
            registry=self.registry,
        )
        self.catalogue_build_seconds = Histogram(
            "toolsearch_catalogue_build_seconds",
            "Time from a tool list to a searchable catalogue.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.cold_searches = Counter(
            "toolsearch_cold_searches",
            "Searches and descriptions asked before the caller's catalogue was known.",
            registry=self.registry,
        )

    def watch_targets(self, counters: Callable[[], Iterable[Any]]) -> None:
        """Read ``counters``, dataclasses of whole numbers, at every scrape: ``toolsearch_target_lists``."""
        self.registry.register(_Targets(counters))

    def watch(self, stores: Callable[[], Iterable[StoreFacts]]) -> None:
        """Read ``stores`` at every scrape: their sizes, and their counters as ``toolsearch_store_events``."""
        self.registry.register(_Stores(stores))


class StoreFacts(Protocol):
    """What a catalogue store tells about itself; ``counters`` is a dataclass of whole numbers."""

    @property
    def callers(self) -> int: ...

    @property
    def catalogues(self) -> int: ...

    @property
    def tools(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def counters(self) -> Any: ...


class _Stores(Collector):
    def __init__(self, stores: Callable[[], Iterable[StoreFacts]]) -> None:
        self._stores = stores

    def collect(self) -> Iterator[Metric]:
        stores = list(self._stores())
        sizes = {
            "callers": ("Callers with a known catalogue.", [store.callers for store in stores]),
            "catalogues": ("Different catalogues kept.", [store.catalogues for store in stores]),
            "catalogue_tools": ("Tools in the catalogues kept.", [store.tools for store in stores]),
            "catalogue_bytes": ("Memory of catalogues and indexes.", [store.size for store in stores]),
        }
        for name, (text, values) in sizes.items():
            yield GaugeMetricFamily(f"toolsearch_{name}", text, value=sum(values))
        events = CounterMetricFamily(
            "toolsearch_store_events", "What happened to catalogues, by event.", labels=["event"]
        )
        for name, total in _totals(store.counters for store in stores).items():
            events.add_metric([name], total)
        yield events

    def describe(self) -> list[Metric]:
        # Told at scrapes only: registering asks for nothing before the stores exist.
        return []


class _Targets(Collector):
    def __init__(self, counters: Callable[[], Iterable[Any]]) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "toolsearch_target_lists",
            "Tool lists that look cut, and lists compared with those of single servers, by what was found.",
            labels=["found"],
        )
        for name, total in _totals(self._counters()).items():
            family.add_metric([name], total)
        yield family

    def describe(self) -> list[Metric]:
        return []


def _totals(counters: Iterable[Any]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for each in counters:
        for field in dataclasses.fields(each):
            totals[field.name] = totals.get(field.name, 0) + getattr(each, field.name)
    return totals


class Notices:
    """What the operator has to mend: counted by setting each time, logged once for each text."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._told: set[str] = set()

    def warn(self, setting: str, text: str) -> None:
        """``text`` holds nothing that a peer sent, so there are only so many of them."""
        self._metrics.warnings.labels(setting).inc()
        if text not in self._told:
            self._told.add(text)
            logger.warning(text, extra=fields(setting=setting))


def configure_logging(settings: Telemetry) -> None:
    """Send the product's log to standard error; libraries speak from ``warning`` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logger.setLevel(settings.log_level.upper())


def fields(**values: object) -> dict[str, dict[str, object]]:
    """``extra=`` argument for a log call: members of the structured record."""
    return {"fields": values}


def where(error: BaseException) -> str:
    """Kind and place of an error without its message, which may quote what a peer sent."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = " < ".join(f"{_module(frame.filename)}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__} at {places}" if places else type(error).__name__


def _module(filename: str) -> str:
    return "/".join(filename.replace("\\", "/").rsplit("/", 2)[-2:])


class TextFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.000Z WARNING message key=value``."""

    def format(self, record: logging.LogRecord) -> str:
        members = "".join(f" {name}={_inline(value)}" for name, value in _members(record).items())
        return f"{_stamp(record)} {record.levelname} {_one_line(record.getMessage())}{members}"


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ``time``, ``level``, ``message`` and the record's own members."""

    def format(self, record: logging.LogRecord) -> str:
        head = {"time": _stamp(record), "level": record.levelname.lower(), "message": record.getMessage()}
        return json.dumps(head | _members(record), default=str, ensure_ascii=False)


def _members(record: logging.LogRecord) -> dict[str, object]:
    members = dict(getattr(record, "fields", {}))
    if record.exc_info and record.exc_info[1] is not None:
        members["error"] = where(record.exc_info[1])
    return members


def _stamp(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _inline(value: object) -> str:
    text = str(value)
    plain = text and not any(character.isspace() or character in '"=\\' for character in text)
    return text if plain else json.dumps(text, ensure_ascii=False)


def _one_line(text: str) -> str:
    # One record is one line, whatever a library puts into its message.
    return text.replace("\r", "\\r").replace("\n", "\\n")
