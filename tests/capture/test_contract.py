"""What may differ between eager and compiled, as the contract of docs/capture.md words it, and no more than that."""

from __future__ import annotations

import functools
import gc
import logging
import traceback
import warnings
import weakref
from typing import ClassVar

import pytest
import torch

import lamina

logger = logging.getLogger("contract")


@pytest.fixture(autouse=True)
def enabled_logger(monkeypatch):
    """Who configures logging anew disables the loggers that there are."""
    monkeypatch.setattr(logger, "disabled", False)


def warns(x, level):
    warnings.warn("made after the addition", DeprecationWarning, level)
    logger.warning("sizes %s", tuple(x.shape), stacklevel=min(level, 2))
    return x


def warns_between_operations(x, level):
    y = x + 1
    warns(y, level)
    return y * 2


def collect(function, caplog, *arguments):
    """The warnings and the log records of a call, with the places that they say they come from."""
    caplog.clear()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = function(*arguments)
    ours = [each for each in caplog.records if each.name == logger.name]
    records = [
        (each.getMessage(), each.pathname, each.lineno, each.funcName, bool(each.exc_info)) for each in ours
    ]
    return result, [(str(each.message), each.category, each.filename, each.lineno) for each in found], records


@pytest.mark.parametrize("level", [1, 2, 3])
def test_warnings_and_log_records_come_with_the_graph_and_name_their_places(caplog, level):
    fast = lamina.compile(warns_between_operations, fullgraph=True)
    for size in (3, 3, 5, 7):
        expected = collect(warns_between_operations, caplog, torch.ones(size), level)
        result = collect(fast, caplog, torch.ones(size), level)
        torch.testing.assert_close(result[0], expected[0])
        assert result[1:] == expected[1:] and len(result[1]) == len(result[2]) == 1


def test_filters_of_warnings_go_by_the_programs_module():
    fast = lamina.compile(warns_between_operations)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("default", category=DeprecationWarning, module=__name__)
        for _ in range(3):
            fast(torch.ones(2), 1)
    assert len(found) == 1


def logs_by_level(x):
    logger.debug("a tensor: %s", x)
    logger.log(logging.INFO, "a number: %s", x.dim())
    try:
        raise KeyError("key")
    except KeyError:
        logger.error("caught", exc_info=logger.isEnabledFor(logging.INFO))
    return x + 1


def test_the_level_of_a_logger_is_seen(caplog):
    fast = lamina.compile(logs_by_level)
    x = torch.ones(2)
    for level in (logging.WARNING, logging.INFO, logging.DEBUG, logging.WARNING):
        caplog.set_level(level, "contract")
        assert collect(fast, caplog, x)[2] == collect(logs_by_level, caplog, x)[2]


def fails_at_a_break(x, table):
    y = x + 1
    number = table[int(y.sum().item())]
    return y * number


def test_a_traceback_from_a_break_shows_the_users_line():
    fast = lamina.compile(fails_at_a_break)
    torch.testing.assert_close(fast(torch.ones(3), {6: 2}), torch.full((3,), 4.0))
    for _ in range(2):
        with pytest.raises(KeyError, match="6") as eagers:
            fails_at_a_break(torch.ones(3), {})
        with pytest.raises(KeyError, match="6") as ours:
            fast(torch.ones(3), {})
        (expected,) = [line for line in traceback.extract_tb(eagers.tb) if line.name == "fails_at_a_break"]
        lines = [line for line in traceback.extract_tb(ours.tb) if line.name == "fails_at_a_break"]
        assert [(line.filename, line.lineno) for line in lines] == [(expected.filename, expected.lineno)]


def test_a_tensor_of_an_inference_region_is_an_ordinary_one():
    def whole(x):
        with torch.inference_mode():
            return x + 1

    assert whole(torch.ones(3)).is_inference()
    result = lamina.compile(whole, fullgraph=True)(torch.ones(3))
    torch.testing.assert_close(result, torch.full((3,), 2.0))
    assert not result.is_inference() and not result.requires_grad


scale = 2.0


@functools.lru_cache
def scaled(k):
    return k * scale


def reads_a_cached_function(x):
    return x * scaled(3)


def test_a_cached_function_gives_the_present_value(monkeypatch):
    scaled.cache_clear()
    fast = lamina.compile(reads_a_cached_function)
    assert fast(torch.ones(1)).item() == reads_a_cached_function(torch.ones(1)).item() == 6
    monkeypatch.setitem(globals(), "scale", 5.0)
    assert reads_a_cached_function(torch.ones(1)).item() == 6
    assert fast(torch.ones(1)).item() == 15


class Settings:
    factor = 3


def compile_with_settings():
    settings = Settings()

    def reads(x):
        return x * settings.factor

    return lamina.compile(reads), weakref.ref(settings)


def test_what_guards_name_lives_as_long_as_the_capture():
    fast, reference = compile_with_settings()
    assert fast(torch.ones(1)).item() == 3
    gc.collect()
    assert reference() is not None
    del fast
    lamina.reset()
    gc.collect()
    assert reference() is None


class Scratch:
    deleted: ClassVar[list[str]] = []

    def __del__(self):
        self.deleted.append("scratch")


def makes_an_object(x, scratch):
    y = x + 1
    scratch.clear()
    lamina.graph_break()
    return y * 2, len(Scratch.deleted)


def test_an_object_nobody_refers_to_is_gone_by_the_next_break():
    fast = lamina.compile(makes_an_object)
    for _ in range(3):
        Scratch.deleted.clear()
        fast(torch.ones(2), [Scratch()])
        gc.collect()
        assert Scratch.deleted == ["scratch"]
