"""Frames that leave the machine and go on natively: against CPython, on every supported Python installed."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import traceback
import types
import weakref

import pytest

from lamina.capture.machine.code import decode
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.native_resume import FrameLayout, make_native_resume, read_layout, read_values
from lamina.capture.machine.signals import UNBOUND
from lamina.errors import Unsupported
from tests.capture.machine import run_native
from tests.capture.machine.programs_frames import PROGRAMS
from tests.capture.machine.random_programs import make_program

SEEDS = 12
SOURCE = pathlib.Path(run_native.__file__)


@pytest.mark.parametrize("program", run_native.run_plain.load_programs() + PROGRAMS, ids=lambda p: p.__name__)
def test_goes_on_from_every_instruction(program):
    differences, refused, left = run_native.compare_program(program)
    assert (differences, refused) == ([], [])
    assert left


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_program_goes_on_from_every_instruction(seed):
    program = make_program(seed)
    if program is None:
        pytest.skip("not a program in this version of Python")
    assert run_native.compare_program(program)[:2] == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("100", str(100 + SEEDS))], ids=["programs", "random"])
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_other_versions(version, arguments):
    found = sorted(pathlib.Path.home().glob(f".pyenv/versions/{version}*/bin/python"))
    if not found or sys.version_info[:2] == tuple(map(int, version.split("."))):
        pytest.skip(f"Python {version} is not installed beside this one")
    command = [str(found[-1]), "-W", "ignore", str(SOURCE), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


def find(function, name, count=1):
    """The index of the `count`-th instruction called `name`."""
    names = [instruction.name for instruction in decode(function.__code__, {}).instructions]
    return [index for index, each in enumerate(names) if each == name][count - 1]


def frame_at(function, position, stack, **slots):
    """A frame of `function` as the machine would have it."""
    frame = Frame(decode(function.__code__, {}), function)
    frame.position = position
    frame.stack = stack
    frame.slots = [slots.get(name, UNBOUND) for name in frame.decoded.slot_names]
    return frame


def resume(frame):
    return make_native_resume(frame.function, read_layout(frame))(read_values(frame))


def divide(a, b):
    c = a + 1
    return c / b


def test_error_has_the_line_of_the_source():
    position = find(divide, "BINARY_OP", 2)
    with pytest.raises(ZeroDivisionError) as caught:
        resume(frame_at(divide, position, [3, 0], a=2, b=0, c=3))
    try:
        divide(2, 0)
    except ZeroDivisionError as error:
        expected = traceback.extract_tb(error.__traceback__)[-1]
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.name, last.lineno) == (expected.filename, expected.name, expected.lineno)


def raise_again(log):
    try:
        log.append(1)
    except ValueError as error:
        log.append(error)
        raise


def test_error_raised_again_leaves_nothing_handled():
    error = ValueError("kept")
    start = find(raise_again, "PUSH_EXC_INFO")
    log = []
    with pytest.raises(ValueError, match="kept") as caught:
        resume(frame_at(raise_again, start, [error], log=log))
    assert caught.value is error and log == [error]
    assert sys.exc_info() == (None, None, None)


class Tracked:
    pass


def drop(value, see):
    value = None  # noqa: F841
    return see()


def test_objects_die_as_early_as_in_the_original():
    tracked = Tracked()
    seen = weakref.ref(tracked)
    frame = frame_at(drop, find(drop, "LOAD_CONST"), [], value=tracked, see=seen)
    function, values = make_native_resume(drop, read_layout(frame)), read_values(frame)
    del tracked, frame
    assert seen() is not None
    assert function(values) is None
    assert values == []


def count_up():
    yield 1


def test_generators_are_refused():
    with pytest.raises(Unsupported, match="generator"):
        make_native_resume(count_up, FrameLayout(0, (), ()))


class Child(Tracked):
    def call_parent(*arguments):
        return super().__init__()


def test_super_without_a_first_argument_is_refused():
    with pytest.raises(Unsupported, match="super"):
        make_native_resume(Child.call_parent, FrameLayout(0, (), (True, True)))


def add(a, b):
    return a + b


@pytest.mark.parametrize(
    "layout, message",
    [
        (FrameLayout(find(add, "BINARY_OP"), (False,), (True, True)), "another number"),
        (FrameLayout(find(add, "BINARY_OP"), (False, True), (True, True)), "NULL for an object"),
        (FrameLayout(0, (), (True,)), "another number"),
    ],
)
def test_wrong_layouts_are_refused(layout, message):
    with pytest.raises(Unsupported, match=message):
        make_native_resume(add, layout)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="checks every read of a local")
def test_unbound_slots_are_refused():
    with pytest.raises(Unsupported, match="'b'"):
        make_native_resume(add, FrameLayout(0, (), (True, False)))


def test_values_that_are_no_frame_are_refused():
    function = make_native_resume(add, FrameLayout(0, (), (True, True)))
    with pytest.raises(TypeError, match="3 values"):
        function([None, 1])
    cell = types.CellType(4)
    kept = None
    inner = types.FunctionType((lambda: kept).__code__, {}, "inner", None, (cell,))
    function = make_native_resume(inner, FrameLayout(find(inner, "LOAD_DEREF"), (), (True,)))
    assert function([None, cell]) == 4
    with pytest.raises(TypeError, match="no cell"):
        function([None, 4])
