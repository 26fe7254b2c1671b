"""Numbers that vary from call to call: sizes of dynamic tensors, int and float arguments, what they give.

To the program a NumberValue is an int or a float. Arithmetic goes on symbolically and into the graph where an
operation uses it; a comparison is decided by this call's value and leaves a guard; anything else takes this
call's value and guards that it is the same. Of a number that only the running graph knows (`unknown.py`)
there is no value to take: what needs it is a graph break.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.fx

from lamina.capture.generated import Writer
from lamina.capture.guards import ARGUMENTS, equal_constant
from lamina.capture.layouts import Leaf, bounds_of_int
from lamina.capture.machine.origins import call_natively
from lamina.capture.sources import Source
from lamina.capture.values.computed import Computed
from lamina.capture.values.unknown import COMPARISONS, Unknown, kind_of_result, may_raise

SYMBOLIC_OPERATORS = frozenset(
    {operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.neg, operator.pos}
)
"""Integer arithmetic that torch's shape environment follows exactly."""
TO_INTEGER: dict[Any, Callable[[Any], Any]] = {
    int: torch.sym_int,
    math.trunc: torch.sym_int,
    math.floor: math.floor,
    math.ceil: math.ceil,
}
DIVISIONS = frozenset({operator.truediv, operator.floordiv, operator.mod})
NEVER_FAILS = frozenset({operator.add, operator.sub, operator.mul, operator.neg, operator.pos, abs, float})
"""What gives a number of the class that the operands' classes say, whatever their values."""
SYMBOLIC_NOT: Any = torch.sym_not
EXTREMES: dict[Any, Any] = {min: torch.sym_min, max: torch.sym_max}


class PendingCall:
    """A recorded operation without tensors in its result; it enters the graph when a number of it is used."""

    __slots__ = ("_node", "arguments", "builder", "keywords", "kind", "target")

    def __init__(self, builder: Any, kind: str, target: Any, arguments: Any, keywords: Any) -> None:
        self.builder = builder
        self.kind = kind
        self.target = target
        self.arguments = arguments
        self.keywords = keywords
        self._node: torch.fx.Node | None = None

    @property
    def node(self) -> torch.fx.Node:
        if self._node is None or not self.builder.is_open(self._node):
            self._node = self.builder.create_node(self.kind, self.target, self.arguments, self.keywords)
        return self._node


class NumberValue:
    """An int or float. hint: this call's value, or Unknown; symbolic: torch's symbol for it, None where only
    Python can follow (floats of floats); leaf: the place outside, if it is read from there."""

    __slots__ = ("__weakref__", "_node", "builder", "call", "hint", "leaf", "symbolic")
    __machine_native__ = True

    def __init__(
        self,
        builder: Any,
        hint: Any,
        symbolic: Any,
        call: PendingCall | None,
        leaf: Leaf | Source | None = None,
        node: torch.fx.Node | None = None,
    ) -> None:
        self.builder = builder
        self.hint = hint
        self.symbolic = symbolic
        self.call = call
        self.leaf = leaf
        self._node = node

    @property
    def real(self) -> Any:
        """Of an input: what the call passed."""
        return self.hint

    @property
    def source(self) -> Source:
        """Of an input: its path."""
        assert self.leaf is not None
        return self.leaf.source if isinstance(self.leaf, Leaf) else self.leaf

    def is_mutated(self) -> bool:
        return False

    @property
    def kind(self) -> type:
        kind: type = self.hint.kind if type(self.hint) is Unknown else type(self.hint)
        return kind

    @property
    def is_unknown(self) -> bool:
        """Whether only the running graph knows the value."""
        return type(self.hint) is Unknown

    @property
    def node(self) -> torch.fx.Node:
        if self._node is None or not self.builder.is_open(self._node):
            assert self.call is not None
            self._node = self.call.node
            self._node.meta["stands_for"] = self
            if self.is_unknown:
                self._node.meta["number"] = self.kind
        return self._node

    @property
    def fake(self) -> Any:
        """What stands for the number in a run on fake tensors."""
        if self.is_unknown:
            return find_symbol(self)
        return self.hint if self.symbolic is None or self.kind is float else self.symbolic

    def write(self, writer: Writer) -> str:
        """Text that gives the number at call time, in a function over `args` and `kwargs`."""
        if self.leaf is not None:
            return str(
                self.leaf.read(writer) if isinstance(self.leaf, Leaf) else self.leaf.expression(writer)
            )
        if self.kind is int:
            return f"({self.builder.symbols.write(self.symbolic.node.expr, writer)})"
        assert self.call is not None
        return writer.read(write_call(self.call.target, self.call.arguments, writer))

    def specialize(self) -> Any:
        """This call's value; the capture holds only where it is the same."""
        if self.is_unknown:
            what = "condition" if self.kind is bool else "number"
            self.builder.reads.give_up(
                (self,), f"a {what} that needs the values of a tensor is used in Python"
            )
        if self.kind is int:
            return int(self.symbolic)
        self.builder.world.guards.add(
            ARGUMENTS,
            "a number",
            f"{self.hint!r}",
            lambda writer: equal_constant(writer, writer.read(self.write(writer)), self.hint),
            self.write,
        )
        return self.hint

    # what Python asks of a number

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(self.kind, name):
            raise AttributeError(
                f"{self.kind.__name__!r} object has no attribute {name!r}", name=name, obj=self
            )
        return getattr(self.specialize(), name)

    def __hash__(self) -> int:
        return hash(self.specialize())

    def __bool__(self) -> bool:
        return bool(self.specialize() if self.is_unknown else decide(operator.ne, self, 0))

    def __index__(self) -> int:
        if self.kind is float:
            raise TypeError("'float' object cannot be interpreted as an integer")
        return int(self.specialize())

    def __int__(self) -> int:
        return int(self.specialize())

    def __float__(self) -> float:
        return float(self.specialize())

    def __complex__(self) -> complex:
        return complex(self.specialize())

    def __trunc__(self) -> Any:
        return math.trunc(self.specialize())

    def __floor__(self) -> Any:
        return math.floor(self.specialize())

    def __ceil__(self) -> Any:
        return math.ceil(self.specialize())

    def __round__(self, digits: Any = None) -> Any:
        if digits is None and not self.is_unknown:
            return self if self.kind is int else combine(round, self)
        return round(self.specialize(), digits)

    def __repr__(self) -> str:
        return repr(self.specialize())

    def __format__(self, specification: str) -> str:
        return format(self.specialize(), specification)

    def __abs__(self) -> Any:
        if self.kind is float or self.is_unknown:
            return combine(abs, self)
        return self if decide(operator.ge, self, 0) else combine(operator.neg, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


def is_number(value: Any) -> bool:
    return type(value) in (int, float, bool, NumberValue)


def is_unknown(value: Any) -> bool:
    return type(value) is NumberValue and value.is_unknown


def kind_of(value: Any) -> type:
    return value.kind if type(value) is NumberValue else type(value)


def hint_of(value: Any) -> Any:
    return value.hint if type(value) is NumberValue else value


def combine(native: Callable[..., Any], *operands: Any) -> Any:
    """`native(*operands)` of numbers of which one is a NumberValue at least."""
    if any(is_unknown(each) for each in operands):
        return combine_unknown(native, operands)
    builder = next(each.builder for each in operands if type(each) is NumberValue)
    try:
        hint = native(*(hint_of(each) for each in operands))
    except Exception:
        # The program's own error, for these values.
        return call_natively(native, *(specialize(each) for each in operands))
    if type(hint) not in (int, float):
        return call_natively(native, *(specialize(each) for each in operands))
    symbolic = combine_symbols(native, hint, operands)
    if type(hint) is int:
        if symbolic is None or symbolic_hint(builder, symbolic) != hint:
            return compute_before(builder, native, operands, hint)
        if constant_of(symbolic) is not None:
            return hint
    guard_outcome(native, operands, hint)
    call = PendingCall(builder, "call_function", native, operands, {})
    return NumberValue(builder, hint, symbolic, call)


def compute_before(builder: Any, native: Callable[..., Any], operands: tuple[Any, ...], hint: int) -> Any:
    """An int that torch's algebra cannot follow, as an input of the graph; 0 and 1 as they are."""
    bounds = bounds_of_int(hint)
    if bounds is None:
        return call_natively(native, *(specialize(each) for each in operands))
    source = Computed(native, operands, partial(write_call, native, operands))
    return builder.add_computed(hint, source, bounds)


def guard_outcome(native: Callable[..., Any], operands: tuple[Any, ...], hint: Any) -> None:
    """Guard that for other numbers as well `native` raises nothing and gives a number of the same class.

    1 / k        raises for k = 0
    b ** k       is complex for b = -8.0, k = 0.5
    """
    if native in NEVER_FAILS or (native in DIVISIONS and type(operands[1]) is not NumberValue):
        return
    if type(hint) is int:
        if native in DIVISIONS:
            decide(operator.ne, operands[1], 0)
        return
    next(each.builder for each in operands if type(each) is NumberValue).world.guards.add(
        ARGUMENTS,
        "arithmetic of numbers",
        f"{native.__name__} gives a float",
        lambda writer: f"type({writer.read(write_call(native, operands, writer))}) is float",
    )


def combine_unknown(native: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """`native(*operands)` of numbers of which one is unknown at least: unknown as well."""
    builder = next(each.builder for each in operands if is_unknown(each))
    kinds = tuple(kind_of(each) for each in operands)
    kind = kind_of_result(native, kinds, operands)
    if kind is None:
        return call_natively(native, *(specialize(each) for each in operands))
    call = PendingCall(builder, "call_function", native, operands, {})
    if may_raise(native, kinds, operands):
        # The program may catch the error: it is raised where it stands, used or not.
        builder.reads.note_check(call.node)
    return NumberValue(builder, Unknown(kind), None, call)


def find_symbol(number: NumberValue) -> Any:
    """torch's symbol for an unknown number, made when an operation on tensors first needs it."""
    if number.symbolic is None:
        number.symbolic = derive_symbol(number)
    if number.symbolic is None:
        number.symbolic = number.builder.reads.make_symbol(number)
    return number.symbolic


def derive_symbol(number: NumberValue) -> Any:
    """The symbol that follows from those of the operands, or None."""
    if number.call is None or number.kind is float or number.call.kind != "call_function":
        return None
    native, operands = number.call.target, number.call.arguments
    is_followed = native in SYMBOLIC_OPERATORS or native in EXTREMES or native in COMPARISONS
    if not is_followed or any(kind_of(each) is not int for each in operands):
        return None
    symbols = [each.fake if type(each) is NumberValue else each for each in operands]
    return EXTREMES.get(native, native)(*symbols)


def combine_symbols(native: Callable[..., Any], hint: Any, operands: tuple[Any, ...]) -> Any:
    """The symbol of a result, or None.

    A float keeps one only if it is one step away from ints: torch's algebra of floats rounds otherwise than
    Python's does in longer chains.
    """
    has_float = any(type(each) is NumberValue and each.kind is float for each in operands)
    if has_float and (native not in TO_INTEGER or operands[0].symbolic is None):
        return None
    symbols = [each.symbolic if type(each) is NumberValue else each for each in operands]
    try:
        if native in TO_INTEGER:
            return TO_INTEGER[native](*symbols)
        if native in EXTREMES and all(type(hint_of(each)) is int for each in operands):
            return EXTREMES[native](*symbols)
        if native is operator.pow:
            return symbols[0] ** symbols[1] if type(symbols[1]) is int and symbols[1] >= 0 else None
        is_plain = native in SYMBOLIC_OPERATORS or (native is operator.truediv and type(hint) is float)
        return native(*symbols) if is_plain and all(type(each) is not bool for each in operands) else None
    except Exception:
        return None


def symbolic_hint(builder: Any, symbolic: Any) -> Any:
    if not isinstance(symbolic, (torch.SymInt, torch.SymFloat)):
        return symbolic
    return builder.symbols.hint_of(symbolic)


def constant_of(symbolic: Any) -> int | None:
    """The int that a SymInt is whatever the sizes, or None."""
    if not isinstance(symbolic, torch.SymInt):
        return int(symbolic)
    expression = symbolic.node.expr
    return int(expression) if expression.is_number else None


def specialize(value: Any) -> Any:
    """This call's value of a number, guarded."""
    return value.specialize() if type(value) is NumberValue else value


def decide(native: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
    """A comparison, decided by this call's values and guarded; of an unknown number an unknown condition."""
    if is_unknown(left) or is_unknown(right):
        known = known_outcome(native, left, right)
        return combine_unknown(native, (left, right)) if known is None else known
    outcome = bool(native(hint_of(left), hint_of(right)))
    builder = next(each.builder for each in (left, right) if type(each) is NumberValue)
    if all(isinstance(hint_of(each), int) for each in (left, right)):
        symbols = [each.symbolic if type(each) is NumberValue else int(each) for each in (left, right)]
        assert bool(native(*symbols)) == outcome
        return outcome
    builder.world.guards.add(
        ARGUMENTS,
        "a comparison of numbers",
        f"{native.__name__} is {outcome}",
        lambda writer: f"{write_call(native, (left, right), writer)} is {outcome}",
    )
    return outcome


def known_outcome(native: Callable[[Any, Any], Any], left: Any, right: Any) -> bool | None:
    """What a comparison of sizes gives whatever the values are, or None."""
    symbols = [each.symbolic if type(each) is NumberValue else each for each in (left, right)]
    if not all(isinstance(each, (int, torch.SymInt)) for each in symbols):
        return None
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    condition = native(*symbols)
    if statically_known_true(condition):
        return True
    return False if statically_known_true(SYMBOLIC_NOT(condition)) else None


def write_call(native: Any, operands: tuple[Any, ...], writer: Writer) -> str:
    """Text that does the same to the numbers of the call."""
    texts = [each.write(writer) if type(each) is NumberValue else writer.constant(each) for each in operands]
    return f"{writer.constant(native)}({', '.join(texts)})"


def _binary(native: Callable[[Any, Any], Any]) -> Callable[[NumberValue, Any], Any]:
    def method(self: NumberValue, other: Any) -> Any:
        return combine(native, self, other) if is_number(other) else give_up(native, self, other)

    return method


def _reflected(native: Callable[[Any, Any], Any]) -> Callable[[NumberValue, Any], Any]:
    def method(self: NumberValue, other: Any) -> Any:
        return combine(native, other, self) if is_number(other) else give_up(native, other, self)

    return method


def give_up(native: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Arithmetic with something that is no real number: complex is done on this call's value."""
    if type(left) is complex or type(right) is complex:
        return call_natively(native, specialize(left), specialize(right))
    return NotImplemented


def _comparison(native: Callable[[Any, Any], Any]) -> Callable[[NumberValue, Any], Any]:
    def method(self: NumberValue, other: Any) -> Any:
        return decide(native, self, other) if is_number(other) else NotImplemented

    return method


def _unary(native: Callable[[Any], Any]) -> Callable[[NumberValue], Any]:
    def method(self: NumberValue) -> Any:
        return combine(native, self)

    return method


for _name in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
):
    _native = getattr(operator, f"__{_name}__")
    setattr(NumberValue, f"__{_name}__", _binary(_native))
    setattr(NumberValue, f"__r{_name}__", _reflected(_native))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(NumberValue, f"__{_name}__", _comparison(getattr(operator, f"__{_name}__")))
for _name in ("neg", "pos", "invert"):
    setattr(NumberValue, f"__{_name}__", _unary(getattr(operator, f"__{_name}__")))


class SizeTuple(tuple[Any, ...]):
    """A torch.Size of which some sizes are NumberValues."""

    __slots__ = ()
    __machine_native__ = True

    def numel(self) -> Any:
        return math.prod(self)

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return make_size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:
        return make_size(tuple.__add__(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return make_size(tuple(other) + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        return make_size(tuple.__mul__(self, other))

    def __repr__(self) -> str:
        return repr(torch.Size(self))


def make_size(items: tuple[Any, ...]) -> Any:
    """`torch.Size(items)`."""
    return SizeTuple(items) if any(type(item) is NumberValue for item in items) else torch.Size(items)


def call_native(callee: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A call of native code on NumberValues that stays symbolic, or NotImplemented."""
    if callee is torch.Size and len(arguments) == 1:
        return make_size(tuple(arguments[0]))
    if callee in EXTREMES and not keywords:
        return pick_extreme(callee, arguments)
    if len(arguments) == 1 and not keywords and type(arguments[0]) is NumberValue:
        number = arguments[0]
        if callee is operator.index or (callee in TO_INTEGER and number.kind is int):
            return number if number.kind is int else callee(specialize(number))
        if callee in TO_INTEGER or callee is float or getattr(callee, "__module__", "") == "math":
            return number if callee is float and number.kind is float else combine(callee, number)
    owner = getattr(callee, "__objclass__", None)
    if owner in (int, float, bool) or getattr(callee, "__module__", None) not in HOLDERS:
        return call_natively(
            callee,
            *(specialize(each) for each in arguments),
            **{name: specialize(each) for name, each in keywords.items()},
        )
    return NotImplemented


HOLDERS = frozenset(
    {
        "builtins",
        "math",
        "operator",
        "_operator",
        "itertools",
        "functools",
        "_functools",
        "collections",
        "_collections",
        None,
    }
)
"""Modules whose functions keep their arguments, or ask a number by its own methods."""


def pick_extreme(native: Any, arguments: tuple[Any, ...]) -> Any:
    """`min` and `max` of numbers."""
    items = list(arguments[0]) if len(arguments) == 1 else list(arguments)
    is_known = not any(is_unknown(item) for item in items)
    if is_known and not all(type(hint_of(item)) is int for item in items):
        return call_natively(native, items)
    best = items[0]
    for item in items[1:]:
        best = combine(native, best, item) if NumberValue in (type(best), type(item)) else native(best, item)
    return best


def holds_number(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether an argument of a native call is a NumberValue, or a list or tuple of some."""
    for value in (*arguments, *keywords.values()):
        kind = type(value)
        if kind is NumberValue or kind is SizeTuple:
            return True
        if (kind is list or kind is tuple) and any(type(item) is NumberValue for item in value):
            return True
    return False
