from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from extproc.settings import Telemetry
from extproc.telemetry import Metrics, configure_logging, fields, logger, where


class Log:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def getvalue(self) -> str:
        return self._capsys.readouterr().err


@pytest.fixture
def stream(capsys: pytest.CaptureFixture[str]) -> Iterator[Log]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level, logger.level)
    yield Log(capsys)
    root.handlers[:], level, own = before
    root.setLevel(level)
    logger.setLevel(own)


def raised() -> Exception:
    try:
        {}["query-word"]
    except KeyError as error:
        return error
    raise AssertionError


def test_text_records_are_one_line_each(stream: Log) -> None:
    configure_logging(Telemetry())
    logger.info("serving", extra=fields(listen="127.0.0.1:1", note='two words "x"', empty=""))
    logger.info("first\nsecond\rthird")
    first, second = stream.getvalue().splitlines()
    assert first.endswith(r'INFO serving listen=127.0.0.1:1 note="two words \"x\"" empty=""')
    assert second.endswith(r"INFO first\nsecond\rthird")


def test_json_records_are_objects(stream: Log) -> None:
    configure_logging(Telemetry(log_format="json"))
    logger.warning("two\nlines", extra=fields(setting="a.b"))
    record = json.loads(stream.getvalue())
    assert (record["level"], record["message"], record["setting"]) == ("warning", "two\nlines", "a.b")
    assert record["time"].endswith("Z")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_error_is_logged_by_kind_and_place(stream: Log, log_format: str) -> None:
    configure_logging(Telemetry(log_format=log_format))  # type: ignore[arg-type]
    try:
        raise raised()
    except KeyError:
        logger.exception("internal error")
    (line,) = stream.getvalue().splitlines()
    assert "KeyError at server/test_telemetry.py:" in line
    assert "query-word" not in line


def test_the_level_is_that_of_the_product_and_libraries_keep_quiet(stream: Log) -> None:
    configure_logging(Telemetry(log_level="debug"))
    logger.debug("own")
    logging.getLogger("some.library").info("chatter")
    logging.getLogger("some.library").warning("trouble")
    assert [line.rpartition(" ")[2] for line in stream.getvalue().splitlines()] == ["own", "trouble"]


def test_where_never_quotes_the_message() -> None:
    assert where(ValueError("query-word")) == "ValueError"
    assert where(raised()).startswith("KeyError at server/test_telemetry.py:")


def test_metrics_of_two_servers_do_not_mix() -> None:
    first, second = Metrics(), Metrics()
    first.cold_searches.inc()
    assert second.registry.get_sample_value("toolsearch_cold_searches_total") == 0


@dataclass
class Happened:
    built: int = 0
    evicted_callers: int = 0


@dataclass
class Store:
    callers: int
    catalogues: int
    tools: int
    size: int
    counters: Happened


def test_stores_are_summed_at_every_scrape() -> None:
    metrics = Metrics()
    stores = [Store(2, 1, 10, 100, Happened(built=1)), Store(3, 1, 20, 200, Happened(3, 4))]
    metrics.watch(lambda: stores)
    value = metrics.registry.get_sample_value
    assert value("toolsearch_callers") == 5
    assert value("toolsearch_catalogue_bytes") == 300
    stores[0].counters.built = 2
    assert value("toolsearch_store_events_total", {"event": "built"}) == 5
    assert value("toolsearch_store_events_total", {"event": "evicted_callers"}) == 4
