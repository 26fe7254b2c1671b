"""Puts call arguments into a new frame's slots as CPython does; its own errors come from CPython itself."""

from __future__ import annotations

import types
from collections.abc import Callable

from lamina.capture.machine.origins import call_natively
from lamina.capture.machine.signals import UNBOUND, Value

CO_VARARGS = 0x04
CO_VARKEYWORDS = 0x08

Defaults = tuple[tuple[Value, ...], dict[str, Value]]
"""Of positional and of keyword-only parameters."""


def _do_nothing() -> None:
    return None


def raise_binding_error(
    function: types.FunctionType,
    arguments: tuple[Value, ...],
    keywords: dict[str, Value],
    defaults: tuple[Value, ...],
    keyword_defaults: dict[str, Value],
) -> None:
    """Raise the TypeError that calling `function` gives, by calling a body-less function of its signature."""
    code = function.__code__
    empty = _do_nothing.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    flags = empty.co_flags | (code.co_flags & (CO_VARARGS | CO_VARKEYWORDS))
    signature = empty.replace(
        co_argcount=code.co_argcount,
        co_posonlyargcount=code.co_posonlyargcount,
        co_kwonlyargcount=code.co_kwonlyargcount,
        co_nlocals=count,
        co_varnames=code.co_varnames[:count],
        co_flags=flags,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
    )
    stub = types.FunctionType(signature, {}, function.__name__, defaults or None)
    stub.__qualname__ = function.__qualname__
    stub.__kwdefaults__ = keyword_defaults or None
    call_natively(stub, *arguments, **keywords)


def bind_arguments(
    function: types.FunctionType,
    arguments: tuple[Value, ...],
    keywords: dict[str, Value],
    read_defaults: Callable[[types.FunctionType], Defaults],
    slots: list[Value],
) -> None:
    """Fill `slots` (all UNBOUND before) from the arguments. Raises CPython's TypeError if they do not fit.

    The function's defaults are read only where they decide something.
    """
    code = function.__code__
    positional = code.co_argcount
    named = positional + code.co_kwonlyargcount
    given = min(len(arguments), positional)
    slots[:given] = arguments[:given]
    extra: dict[str, Value] = {}
    fits = _bind_keywords(code, keywords, slots, extra)
    if code.co_flags & CO_VARARGS:
        slots[named] = tuple(arguments[positional:])
    elif len(arguments) > positional:
        fits = False
    if code.co_flags & CO_VARKEYWORDS:
        slots[named + bool(code.co_flags & CO_VARARGS)] = extra
    elif extra:
        fits = False
    if fits and not any(slot is UNBOUND for slot in slots[given:named]):
        return
    defaults, keyword_defaults = read_defaults(function)
    first_default = positional - len(defaults)
    for index in range(given, positional):
        if slots[index] is UNBOUND:
            if index < first_default:
                fits = False
                break
            slots[index] = defaults[index - first_default]
    for index in range(positional, named):
        if slots[index] is UNBOUND:
            slots[index] = keyword_defaults.get(code.co_varnames[index], UNBOUND)
            fits = fits and slots[index] is not UNBOUND
    if not fits:
        raise_binding_error(function, arguments, keywords, defaults, keyword_defaults)


def _bind_keywords(
    code: types.CodeType, keywords: dict[str, Value], slots: list[Value], extra: dict[str, Value]
) -> bool:
    if not keywords:
        return True
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for name, value in keywords.items():
        try:
            index = names.index(name, code.co_posonlyargcount)
        except ValueError:
            extra[name] = value
            continue
        if slots[index] is not UNBOUND:
            return False
        slots[index] = value
    return True
