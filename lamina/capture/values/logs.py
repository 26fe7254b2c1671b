"""Log records: made after the graph has run, from frames that look like the program's."""

from __future__ import annotations

import functools
import logging
from typing import Any

from lamina.capture.machine.signals import Value, stop
from lamina.capture.values.conversions import Arguments, Keywords, Model


def is_enabled(world: Any, logger: Value, level: Value) -> bool:
    """`Logger.isEnabledFor`, guarded."""
    if not isinstance(logger, logging.Logger) or type(level) is not int:
        stop("effect-argument", "the level of a log record is not known")
    world.guard_query(f"{logger.name!r} logs level {level}", functools.partial(logger.isEnabledFor, level))
    return logger.isEnabledFor(level)


def model_is_enabled(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`Logger.isEnabledFor(level)`."""
    logger, level = (*arguments, *keywords.values())
    return is_enabled(world, logger, level)


def model_log(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`Logger.log(level, message, ...)`."""
    if len(arguments) > 1 and is_enabled(world, arguments[0], arguments[1]):
        note_record(world, logging.Logger.log, arguments, keywords)


def model_log_at(name: str, level: int) -> Model:
    """A method that logs at one level."""
    method = getattr(logging.Logger, name)

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        if is_enabled(world, arguments[0], level):
            note_record(world, method, arguments, keywords)

    return model


def note_record(world: Any, method: Any, arguments: Arguments, keywords: Keywords) -> None:
    if keywords.get("exc_info"):
        stop("effect-argument", "a log record shows an exception", "log it outside the compiled function")
    world.add_effect(method, arguments, keywords)


LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
LOG_MODELS: dict[Any, Model] = {
    logging.Logger.isEnabledFor: model_is_enabled,
    logging.Logger.log: model_log,
    **{getattr(logging.Logger, name): model_log_at(name, level) for name, level in LEVELS.items()},
}
