"""Tracebacks as the program would have made them: one entry for each of its frames that an error passed.

Their frames are those of generators that were never run: with the code, the positions and the globals
of the program's frames, and hold none of their values.
"""

from __future__ import annotations

import dis
import functools
import inspect
import types

from lamina.capture.machine.code import CACHE
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.origins import PACKAGE

START = bytes((dis.opmap["RETURN_GENERATOR"], 0, dis.opmap["POP_TOP"], 0))
FILLER = bytes((dis.opmap["NOP"], 0))
ARGUMENT_FLAGS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
KINDS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


def extend_traceback(entries: types.TracebackType | None, frame: Frame) -> types.TracebackType:
    """The traceback of an error that passes `frame` where it stands; `entries`: of the frames before."""
    instruction = max(frame.position - 1, 0)
    return types.TracebackType(entries, make_stub(frame), find_offset(frame.code, instruction), frame.line)


def skip_machine(entries: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback from the first frame on that is not of this package."""
    while entries is not None and entries.tb_frame.f_code.co_filename.startswith(PACKAGE):
        entries = entries.tb_next
    return entries


def find_offset(code: types.CodeType, index: int) -> int:
    """Where in the bytes of `code` its instruction number `index` begins."""
    data = code.co_code
    return [offset for offset in range(0, len(data), 2) if data[offset] != CACHE][index]


def make_stub(frame: Frame) -> types.FrameType:
    function = types.FunctionType(make_stub_code(frame.code), frame.global_names)
    stub: types.FrameType = function().gi_frame
    return stub


@functools.lru_cache(maxsize=256)
def make_stub_code(code: types.CodeType) -> types.CodeType:
    """A generator without arguments and cells, which nobody would fill, that has the positions of `code`."""
    fillers = (len(code.co_code) - len(START)) // len(FILLER)
    return code.replace(
        co_code=START + FILLER * fillers,
        co_argcount=0,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_cellvars=(),
        co_freevars=(),
        co_flags=code.co_flags & ~(ARGUMENT_FLAGS | KINDS) | inspect.CO_GENERATOR,
    )
