"""The native check of identities: true for what is there, false after any change."""

from __future__ import annotations

import collections
import sys

import pytest

from lamina.runtime.devices.cpu.identities import Identities


class Kind:
    pass


class Other:
    pass


class Equal(str):
    """A text equal to any other."""

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


class Raising(str):
    def __eq__(self, other):
        raise RuntimeError("compared")

    __hash__ = str.__hash__


def make_function(value):
    def function(a=1, *, b=2):
        return value

    return function


def case(kind):
    """A row that holds, and a change after which it does not."""
    owner, entries, function = Kind(), {"name": "value", "other": 1}, make_function(3)
    cell = function.__closure__[0]
    later = (7,)
    match kind:
        case "entry":
            return (kind, entries, "name", entries["name"]), lambda: entries.update(name=Equal("value"))
        case "entry gone":
            return ("entry", entries, "name", entries["name"]), lambda: entries.pop("name")
        case "entry ordered":
            ordered = collections.OrderedDict(entries)
            return ("entry", ordered, "name", ordered["name"]), lambda: ordered.update(name=2)
        case "absent":
            return (kind, entries, "more", None), lambda: entries.update(more=None)
        case "empty":
            table = {}
            return (kind, table, None, None), lambda: table.update(hook=1)
        case "version":
            return (kind, Kind, None, None), lambda: setattr(Kind, "value", 1)
        case "version of a base":

            class Derived(Kind):
                pass

            return ("version", Derived, None, None), lambda: setattr(Kind, "value", 2)
        case "version with other bases":

            class Rebased(Kind):
                pass

            return ("version", Rebased, None, None), lambda: setattr(Rebased, "__bases__", (Other,))
        case "version less":
            Other.value = 1
            return ("version", Other, None, None), lambda: delattr(Other, "value")
        case "type":
            return (kind, owner, None, Kind), lambda: setattr(owner, "__class__", Other)
        case "dict":
            owner.value = 1
            return (kind, owner, None, owner.__dict__), lambda: setattr(owner, "__dict__", {"value": 1})
        case "cell":
            return (kind, cell, None, 3), lambda: setattr(cell, "cell_contents", 4)
        case "cell emptied":
            return ("cell", cell, None, 3), lambda: delattr(cell, "cell_contents")
        case "code":
            code = make_function(3).__code__.replace(co_name="another")
            return (kind, function, None, function.__code__), lambda: setattr(function, "__code__", code)
        case "defaults":
            return (kind, function, None, function.__defaults__), lambda: setattr(
                function, "__defaults__", later
            )
        case "no defaults":
            function.__defaults__ = None
            return ("defaults", function, None, None), lambda: setattr(function, "__defaults__", later)
        case "keyword defaults":
            found = function.__kwdefaults__
            return (kind, function, None, found), lambda: setattr(function, "__kwdefaults__", dict(found))


KINDS = [
    "entry",
    "entry gone",
    "entry ordered",
    "absent",
    "empty",
    "type",
    "dict",
    "cell",
    "cell emptied",
    "code",
]
KINDS += ["version", "version of a base", "version with other bases", "version less"]
KINDS += ["defaults", "no defaults", "keyword defaults"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_is_seen(kind):
    row, change = case(kind)
    unchanged = case("type")[0]
    checks = Identities([unchanged, row, unchanged])
    assert checks.hold() and checks.hold()
    change()
    # What was looked up since has a version again: another one.
    assert not checks.hold() and not hasattr(row[1], "missing") and not checks.hold()


def test_references_are_given_back():
    row, _ = case("dict")
    cell_row, _ = case("cell")
    checks = Identities([row, cell_row])
    before = sys.getrefcount(row[3])
    assert all(checks.hold() for _ in range(10))
    after = sys.getrefcount(row[3])
    assert after == before


def test_a_key_that_cannot_be_compared_leaves_it_open():
    entries = {Raising("name"): 1}
    assert not Identities([("absent", entries, "".join(["na", "me"]), None)]).hold()
    assert Identities([("absent", entries, "other", None)]).hold()


def test_no_rows():
    assert Identities([]).hold()
