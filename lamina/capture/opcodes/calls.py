"""Calls, function making and class building."""

from __future__ import annotations

import sys
import types
from typing import Any

from lamina.capture.machine.code import CO_ASYNC_GENERATOR, CO_COROUTINE, Handler, Instruction
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.signals import MISSING, NULL, Value, stop
from lamina.capture.opcodes.asynchronous import wrap_yielded
from lamina.capture.opcodes.containers import name_callable, take
from lamina.capture.opcodes.names import import_all
from lamina.capture.values.iteration import is_iterable, unpack

DEFAULTS, KEYWORD_DEFAULTS, ANNOTATIONS, CLOSURE = 1, 2, 4, 8


def keyword_names(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    frame.keyword_names = frame.code.co_consts[instruction.arg]
    return None


def enter_call(machine: Any, frame: Frame, count: int, names: tuple[str, ...]) -> int | None:
    """Call what lies under `count` arguments, the last of them named by `names`."""
    values = take(frame, count)
    second = frame.stack.pop()
    first = frame.stack.pop()
    if sys.version_info >= (3, 13):
        callee, owner = first, second
    elif first is NULL:
        callee, owner = second, NULL
    else:
        callee, owner = first, second
    positional = count - len(names)
    arguments = tuple(values[:positional])
    if owner is not NULL:
        arguments = (owner, *arguments)
    keywords = dict(zip(names, values[positional:], strict=True)) if names else {}
    frame.stack.append(machine.world.call(callee, arguments, keywords))
    return None


def call(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    names, frame.keyword_names = frame.keyword_names, ()
    return enter_call(machine, frame, instruction.arg, names)


def call_kw(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    names = frame.stack.pop()
    return enter_call(machine, frame, instruction.arg, names)


def call_function_ex(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    keywords: dict[str, Value] = dict(frame.stack.pop()) if instruction.arg & 1 else {}
    arguments = frame.stack.pop()
    if sys.version_info >= (3, 13):
        frame.stack.pop()
        callee = frame.stack.pop()
    else:
        callee = frame.stack.pop()
        frame.stack.pop()
    if not is_iterable(arguments):
        kind = type(arguments).__name__
        raise TypeError(f"{name_callable(callee)} argument after * must be an iterable, not {kind}")
    if not all(isinstance(key, str) for key in keywords):
        raise TypeError("keywords must be strings")
    if type(arguments) is not tuple:
        arguments = tuple(unpack(machine.world, arguments))
    frame.stack.append(machine.world.call(callee, arguments, keywords))
    return None


def make_function(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    code = frame.stack.pop()
    flags = instruction.arg if sys.version_info < (3, 13) else 0
    closure = frame.stack.pop() if flags & CLOSURE else None
    annotations = frame.stack.pop() if flags & ANNOTATIONS else None
    keyword_defaults = frame.stack.pop() if flags & KEYWORD_DEFAULTS else None
    defaults = frame.stack.pop() if flags & DEFAULTS else None
    # A code object with free variables needs a closure at once; in 3.13 it follows in SET_FUNCTION_ATTRIBUTE.
    placeholder = tuple(types.CellType() for _ in code.co_freevars) or None
    function = types.FunctionType(code, frame.global_names, code.co_name, defaults, closure or placeholder)
    function.__kwdefaults__ = keyword_defaults
    if annotations is not None:
        set_annotations(function, annotations)
    machine.world.note_function(function)
    frame.stack.append(function)
    return None


def set_annotations(function: types.FunctionType, annotations: Value) -> None:
    """Annotations come as a dict or as a flat tuple of names and values."""
    if isinstance(annotations, tuple):
        annotations = dict(zip(annotations[::2], annotations[1::2], strict=True))
    function.__annotations__ = annotations


def set_function_attribute(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    function = frame.stack.pop()
    value = frame.stack.pop()
    if instruction.arg == DEFAULTS:
        function.__defaults__ = value
    elif instruction.arg == KEYWORD_DEFAULTS:
        function.__kwdefaults__ = value
    elif instruction.arg == ANNOTATIONS:
        set_annotations(function, value)
    else:
        made = types.FunctionType(
            function.__code__, frame.global_names, function.__name__, function.__defaults__, value
        )
        made.__kwdefaults__ = function.__kwdefaults__
        made.__annotations__ = function.__annotations__
        machine.world.note_function(made)
        function = made
    frame.stack.append(function)
    return None


def load_build_class(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    found = machine.world.find_name(frame.builtins, "__build_class__")
    if found is MISSING:
        raise NameError("__build_class__ not found")
    frame.stack.append(found)
    return None


INTRINSICS_WITH_ONE = {
    "INTRINSIC_UNARY_POSITIVE": "UNARY_POSITIVE",
    "INTRINSIC_LIST_TO_TUPLE": "LIST_TO_TUPLE",
}


def replace_stop(flags: int, error: BaseException) -> BaseException:
    """What leaves a frame of code with these flags for an error that would be taken for its end (PEP 479)."""
    is_async_generator = flags & CO_ASYNC_GENERATOR
    kind = "async generator" if is_async_generator else "coroutine" if flags & CO_COROUTINE else "generator"
    for stopping in (StopIteration, *((StopAsyncIteration,) if is_async_generator else ())):
        if isinstance(error, stopping):
            replaced = RuntimeError(f"{kind} raised {stopping.__name__}")
            replaced.__cause__ = replaced.__context__ = error
            return replaced
    return error


def call_intrinsic_1(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    from lamina.capture.values import operators

    name = intrinsic_names()[instruction.arg]
    if name == "INTRINSIC_LIST_TO_TUPLE":
        frame.stack[-1] = tuple(frame.stack[-1])
    elif name == "INTRINSIC_UNARY_POSITIVE":
        frame.stack[-1] = operators.apply_unary(machine.world, "UNARY_POSITIVE", frame.stack[-1])
    elif name == "INTRINSIC_STOPITERATION_ERROR":
        frame.stack[-1] = replace_stop(frame.code.co_flags, frame.stack[-1])
    elif name == "INTRINSIC_ASYNC_GEN_WRAP":
        wrap_yielded(machine, frame, instruction)
    elif name == "INTRINSIC_IMPORT_STAR":
        import_all(machine, frame, frame.stack[-1])
        frame.stack[-1] = None
    elif name == "INTRINSIC_PRINT":
        machine.world.show_value(frame.stack[-1])
        frame.stack[-1] = None
    else:
        stop("bytecode", f"the intrinsic {name} is not modelled")
    return None


def print_expression(machine: Any, frame: Frame, instruction: Instruction) -> int | None:
    machine.world.show_value(frame.stack.pop())
    return None


def intrinsic_names() -> tuple[str, ...]:
    """Names of the one-operand intrinsics by number, of the running Python (3.12 does not export them)."""
    import opcode

    listed = getattr(opcode, "_intrinsic_1_descs", None)
    return tuple(listed) if listed else INTRINSICS_312


INTRINSICS_312 = (
    "INTRINSIC_1_INVALID",
    "INTRINSIC_PRINT",
    "INTRINSIC_IMPORT_STAR",
    "INTRINSIC_STOPITERATION_ERROR",
    "INTRINSIC_ASYNC_GEN_WRAP",
    "INTRINSIC_UNARY_POSITIVE",
    "INTRINSIC_LIST_TO_TUPLE",
    "INTRINSIC_TYPEVAR",
    "INTRINSIC_PARAMSPEC",
    "INTRINSIC_TYPEVARTUPLE",
    "INTRINSIC_SUBSCRIPT_GENERIC",
    "INTRINSIC_TYPEALIAS",
)

HANDLERS: dict[str, Handler] = {
    "KW_NAMES": keyword_names,
    "CALL": call,
    "CALL_KW": call_kw,
    "CALL_FUNCTION_EX": call_function_ex,
    "MAKE_FUNCTION": make_function,
    "SET_FUNCTION_ATTRIBUTE": set_function_attribute,
    "LOAD_BUILD_CLASS": load_build_class,
    "PRINT_EXPR": print_expression,
    "CALL_INTRINSIC_1": call_intrinsic_1,
}
