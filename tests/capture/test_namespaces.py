"""Dictionaries of global names, read and written as globals, as attributes of a module and as dicts."""

from __future__ import annotations

import sys
import types

import pytest
import torch

import lamina

SOURCE = """
n = 0
def increase():
    global n
    n += 1
    return n
def define():
    global fresh
    fresh = 5
def remove():
    global fresh
    del fresh
def read(name):
    return globals()[name]
def write(name, value):
    globals()[name] = value
"""


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("module_of_globals")
    exec(SOURCE, made.__dict__)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def attribute(m, x):
    m.increase()
    return x * m.n


def set_attribute(m, x):
    m.n = 7
    return x * m.increase()


def entry_of_dict(m, x):
    m.increase()
    return x * m.__dict__["n"]


def entry_of_vars(m, x):
    m.increase()
    return x * vars(m)["n"]


def entry_of_functions_globals(m, x):
    m.increase()
    return x * m.increase.__globals__["n"]


def written_through_the_dict(m, x):
    m.__dict__["n"] = 9
    return x * m.increase()


def defined_and_removed(m, x):
    m.define()
    found = m.fresh
    m.remove()
    return x * found, hasattr(m, "fresh")


def defined(m, x):
    m.define()
    return x * sys.modules[m.__name__].fresh, getattr(m, "missing", None)


def removed(m, x):
    del m.n
    try:
        m.increase()
    except NameError:
        m.n = 2
    return x * m.n


def imported(m, x):
    m.increase()
    from module_of_globals import n

    return x * n


def by_globals(m, x):
    m.write("n", m.read("n") + 2)
    m.write("other", 3)
    return x * m.increase() * m.other, "other" in vars(m), vars(m).get("missing", 4)


def same_objects(m, x):
    return x, m.__dict__ is vars(m), m.__dict__ is m.read.__globals__, isinstance(vars(m), dict)


WHOLE = [
    attribute,
    set_attribute,
    entry_of_dict,
    entry_of_vars,
    entry_of_functions_globals,
    written_through_the_dict,
    defined_and_removed,
    defined,
    removed,
    imported,
    by_globals,
    same_objects,
]


def listed(m, x):
    m.increase()
    return x * m.n, dict(m.__dict__)["n"], len(vars(m)), sorted(name for name in vars(m) if name.islower())


def held_as_a_dict(m, x):
    entries = m.held
    before = entries["n"]
    m.increase()
    return x * before, entries["n"], m.n


def results_of(program, module, function):
    module.held = module.__dict__
    module.n = 0
    found = []
    for _ in range(3):
        result = function(module, torch.ones(2))
        found.append((result, module.n, sorted(vars(module))))
        module.n += 3  # Somebody else changes it between two calls.
    for name in ("fresh", "other"):
        vars(module).pop(name, None)
    return repr(found)


@pytest.mark.parametrize("program", [*WHOLE, listed, held_as_a_dict], ids=lambda program: program.__name__)
def test_as_in_eager(program, module):
    expected = results_of(program, module, program)
    fast = lamina.compile(program, fullgraph=program in WHOLE)
    assert results_of(program, module, fast) == expected
