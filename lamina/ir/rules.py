"""Rewrites declared as equations, and the check that an equation is true.

    Rule("(arith.mulf ?x (constant 1.0)) => ?x")
    Rule("(arith.divf ?x (constant ?c)) => (arith.mulf ?x (constant ?r))",
         where=lambda c: is_power_of_two(c), compute={"r": lambda c: 1 / c})

`?x` is any value, the same one wherever it stands; `(constant 1.0)` a constant, or one number for all
elements of a tensor or vector; `(constant ?c)` binds the number. Attributes stand behind the name:
`(arith.cmpf {predicate = 14} ?x ?x)`. Commutative operations match in both orders. A number with a point is
a float, -0.0 is not 0.0; others are integers, `true` and `false` booleans. Results have the type that the
operation's record infers, or that of what is replaced.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from lamina.ir.arrays import apply_elementwise, round_array
from lamina.ir.attributes import Attribute, BoolAttr, DenseElementsAttr, FloatAttr, IntegerAttr
from lamina.ir.core import Operation, Value
from lamina.ir.ops import is_commutative, record
from lamina.ir.rewrite import Pattern, Rewriter
from lamina.ir.text.cursor import BARE_WORD, Cursor
from lamina.ir.text.read_attributes import AttributeReader
from lamina.ir.text.read_types import TypeReader
from lamina.ir.types import ScalarType, TensorType, Type, VectorType, element_of, i1

Number: TypeAlias = float | int | bool
VARIABLE = re.compile(r"\?([a-z][a-z0-9_]*)")
NUMBER = re.compile(r"-?(?:inf|nan|[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)")


@dataclass(frozen=True, slots=True)
class Variable:
    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, or the variable that stands for one."""

    value: Number | Variable


@dataclass(frozen=True, slots=True)
class Apply:
    name: str
    attributes: tuple[tuple[str, Attribute], ...]
    arguments: tuple[Term, ...]


Term: TypeAlias = Variable | Constant | Apply
Bindings: TypeAlias = dict[str, Any]
"""A Value for each `?x`, a number for each `(constant ?c)`."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`text` is `left => right`. See the module.

    exact: both sides give the same bits (but for those of nan) on all numbers; otherwise only nearly so, on
    finite numbers of moderate size. where, compute: get the bound numbers by name.
    """

    text: str
    exact: bool = True
    where: Callable[..., bool] | None = None
    compute: Mapping[str, Callable[..., Number]] = field(default_factory=dict)
    left: Apply = field(init=False)
    right: Term = field(init=False)

    def __post_init__(self) -> None:
        cursor = Cursor(self.text, "<rule>")
        left = _read_term(cursor)
        cursor.expect("=>", "between the two sides of a rule")
        right = _read_term(cursor)
        if not cursor.is_at_end:
            raise cursor.error("unexpected text after a rule")
        if not isinstance(left, Apply):
            raise cursor.error("the left side of a rule must be an operation", 0)
        known = set(_names(left)) | self.compute.keys()
        unknown = [name for name in _names(right) if name not in known]
        if unknown:
            raise cursor.error(f"'?{unknown[0]}' is not on the left side", self.text.index("=>"))
        object.__setattr__(self, "left", left)
        object.__setattr__(self, "right", right)

    def pattern(self) -> Pattern:
        """For the rewrite driver."""
        return Pattern(self.text, self.left.name, self._apply)

    def _apply(self, operation: Operation, rewriter: Rewriter) -> bool:
        if len(operation.results) != 1:
            return False
        for bindings in _match_operation(self.left, operation, {}):
            if self._accepts(bindings):
                type_ = operation.result.type
                rewriter.replace(operation, [_build(self.right, bindings, type_, rewriter)])
                return True
        return False

    def _accepts(self, bindings: Bindings) -> bool:
        """Check the condition and add the computed numbers."""
        numbers = {name: value for name, value in bindings.items() if not isinstance(value, Value)}
        if self.where is not None and not self.where(**numbers):
            return False
        bindings.update({name: compute(**numbers) for name, compute in self.compute.items()})
        return True


def _read_term(cursor: Cursor) -> Term:
    variable = cursor.take(VARIABLE)
    if variable is not None:
        return Variable(variable.group(1))
    cursor.expect("(", "or a variable such as ?x")
    name = cursor.take(BARE_WORD)
    if name is None:
        raise cursor.error("expected the name of an operation")
    if name.group() == "constant":
        value = _read_constant(cursor)
        cursor.expect(")", "after a constant")
        return Constant(value)
    if record(name.group()) is None:
        raise cursor.error(f"unknown operation '{name.group()}'", cursor.at)
    attributes: dict[str, Attribute] = {}
    if cursor.looking_at("{"):
        attributes = AttributeReader(cursor, TypeReader(cursor)).read_dictionary()
    arguments = []
    while not cursor.accept(")"):
        arguments.append(_read_term(cursor))
    return Apply(name.group(), tuple(attributes.items()), tuple(arguments))


def _read_constant(cursor: Cursor) -> Number | Variable:
    variable = cursor.take(VARIABLE)
    if variable is not None:
        return Variable(variable.group(1))
    for word, flag in (("true", True), ("false", False)):
        if cursor.accept_word(word):
            return flag
    number = cursor.take(NUMBER)
    if number is None:
        raise cursor.error("expected a number, a variable, 'true' or 'false'")
    text = number.group()
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _names(term: Term) -> Iterator[str]:
    """The variables of a term, in order."""
    match term:
        case Variable(name) | Constant(Variable(name)):
            yield name
        case Apply(_, _, arguments):
            for argument in arguments:
                yield from _names(argument)


# matching and building


def _match(term: Term, value: Value, bindings: Bindings) -> Iterator[Bindings]:
    match term:
        case Variable(name):
            if bindings.get(name, value) is value:
                yield {**bindings, name: value}
        case Constant(wanted):
            number = constant_number(value)
            if number is not None:
                yield from _match_number(wanted, number, element_of(value.type), bindings)
        case Apply():
            operation = value.defining_op
            if operation is not None and len(operation.results) == 1:
                yield from _match_operation(term, operation, bindings)


def _match_operation(term: Apply, operation: Operation, bindings: Bindings) -> Iterator[Bindings]:
    if operation.name != term.name or len(operation.operands) != len(term.arguments):
        return
    if any(operation.attributes.get(key) != value for key, value in term.attributes):
        return
    orders = [operation.operands]
    if len(operation.operands) == 2 and is_commutative(operation):
        orders.append(operation.operands[::-1])
    for operands in orders:
        found = [bindings]
        for argument, value in zip(term.arguments, operands, strict=True):
            found = [more for each in found for more in _match(argument, value, each)]
        yield from found


def _match_number(
    wanted: Number | Variable, number: Number, type_: ScalarType, bindings: Bindings
) -> Iterator[Bindings]:
    if isinstance(wanted, Variable):
        known = bindings.get(wanted.name, number)
        if _same_number(known, number):
            yield {**bindings, wanted.name: number}
    elif _fits(wanted, type_) and _same_number(
        FloatAttr(wanted, type_).value if type_.is_float else wanted, number
    ):
        yield bindings


def _fits(number: Number, type_: ScalarType) -> bool:
    """Whether a number in a rule is one of an element type."""
    if isinstance(number, bool):
        return type_ is i1
    return type_.is_float if isinstance(number, float) else not type_.is_float and type_ is not i1


def _same_number(a: Number, b: Number) -> bool:
    return FloatAttr(a) == FloatAttr(b) if isinstance(a, float) else a == b


def constant_number(value: Value) -> Number | None:
    """The number of a scalar constant, or of a constant whose elements are all the same."""
    operation = value.defining_op
    if operation is None or operation.name != "arith.constant":
        return None
    match operation.attributes["value"]:
        case FloatAttr(number) | IntegerAttr(number) | BoolAttr(number):
            return number
        case DenseElementsAttr(_, _, True) as splat if not splat.type.element.name.startswith("complex"):
            return splat.splat_value()
    return None


def constant_attribute(number: Number, type_: Type) -> Attribute:
    """The `value` of an `arith.constant` of a scalar type, or of one that has `number` in every element."""
    if isinstance(type_, TensorType | VectorType):
        return DenseElementsAttr.splat(number, type_)
    if not isinstance(type_, ScalarType):
        raise ValueError(f"no constant of type {type_}")
    if type_.is_float:
        return FloatAttr(float(number), type_)
    return BoolAttr(bool(number)) if type_ is i1 else IntegerAttr(int(number), type_)


def _build(term: Term, bindings: Bindings, type_: Type, rewriter: Rewriter) -> Value:
    """The right side as operations; `type_` is what its user expects."""
    match term:
        case Variable(name):
            found: Value = bindings[name]
            return found
        case Constant(number):
            plain = bindings[number.name] if isinstance(number, Variable) else number
            return rewriter.value("arith.constant", (), type_, {"value": constant_attribute(plain, type_)})
        case Apply(name, attributes, arguments):
            expected = _operand_type(arguments, bindings, type_)
            operands = [_build(argument, bindings, expected, rewriter) for argument in arguments]
            found_record = record(name)
            if found_record is not None and found_record.infer is not None:
                type_ = found_record.infer([value.type for value in operands], dict(attributes))[0]
            return rewriter.value(name, operands, type_, dict(attributes))


def _operand_type(arguments: Sequence[Term], bindings: Bindings, type_: Type) -> Type:
    """The type of the first operand that has one already, for constants beside it."""
    for argument in arguments:
        if isinstance(argument, Variable):
            value: Value = bindings[argument.name]
            return value.type
    return type_


# the check

SPECIAL_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, -7.5, 1e-3, 1e30, -1e30, 1e-42, -1e-42, 2.0**-126,
                  0.1, float("inf"), float("-inf"), float("nan"))  # fmt: skip
SPECIAL_INTEGERS = (0, 1, -1, 2, 3, -7, 64, 127, -128, 2**31 - 1, -(2**31))
MODERATE = 1e4


def counterexamples(rule: Rule, type_: ScalarType, numbers: Sequence[Number] = ()) -> list[str]:
    """Where the two sides of a rule differ for variables of an element type: empty for a true equation.

    Every combination of special values (zeros, infinities, nan, subnormals, limits) is tried. numbers: more
    values for `(constant ?c)`. An inexact rule is tried on moderate numbers only, to a relative 1e-5 (or what
    the type has).
    """
    special: Sequence[Number] = SPECIAL_FLOATS if type_.is_float else SPECIAL_INTEGERS
    special = (False, True) if type_ is i1 else special
    if not rule.exact:
        special = [x for x in special if np.isfinite(x) and 1e-4 < abs(x) < MODERATE]
    names = list(dict.fromkeys(_names(rule.left)))
    constants = [name for name in names if _is_number(rule.left, name)]
    values = [name for name in names if name not in constants]
    choices = [
        np.array([False, True]) if _is_condition(rule.left, name) else round_array(np.array(special), type_)
        for name in values
    ]
    grid = np.meshgrid(*choices, indexing="ij")
    arrays = {name: array.reshape(-1) for name, array in zip(values, grid, strict=True)}
    failures = []
    for chosen in itertools.product([*special, *numbers], repeat=len(constants)):
        bindings: Bindings = {name: _rounded(x, type_) for name, x in zip(constants, chosen, strict=True)}
        if not rule._accepts(bindings):
            continue
        left, right = (_evaluate(side, arrays, bindings, type_) for side in (rule.left, rule.right))
        for place in np.flatnonzero(~_agree(left, right, rule.exact)):
            inputs = {name: array[place].item() for name, array in arrays.items()} | bindings
            a, b = (np.broadcast_to(side, len(grid[0].flat) if grid else 1)[place] for side in (left, right))
            failures.append(f"{rule.text} for {inputs}: {a} is not {b}")
    return failures


def _is_number(term: Term, name: str) -> bool:
    if isinstance(term, Apply):
        return any(_is_number(argument, name) for argument in term.arguments)
    return term == Constant(Variable(name))


def _is_condition(term: Term, name: str) -> bool:
    """Whether a variable is what an `arith.select` decides by."""
    if not isinstance(term, Apply):
        return False
    is_here = term.name == "arith.select" and term.arguments[0] == Variable(name)
    return is_here or any(_is_condition(argument, name) for argument in term.arguments)


def _rounded(number: Number, type_: ScalarType) -> Number:
    rounded: Number = round_array(np.array(number), type_).item()
    return rounded


def _evaluate(term: Term, arrays: Mapping[str, Any], numbers: Mapping[str, Number], type_: ScalarType) -> Any:
    return _evaluate_typed(term, arrays, numbers, type_)[0]


def _evaluate_typed(
    term: Term, arrays: Mapping[str, Any], numbers: Mapping[str, Number], type_: ScalarType
) -> tuple[Any, ScalarType]:
    """The value of a side through the interpreter, and its element type."""
    match term:
        case Variable(name):
            return arrays[name], i1 if arrays[name].dtype == bool else type_
        case Constant(number):
            plain = numbers[number.name] if isinstance(number, Variable) else number
            element = i1 if isinstance(plain, bool) else type_
            return round_array(np.array(plain), element), element
        case Apply(name, attributes, arguments):
            parts = [_evaluate_typed(argument, arrays, numbers, type_) for argument in arguments]
            types = [element for _, element in parts]
            found = record(name)
            inferred = found.infer(types, dict(attributes)) if found is not None and found.infer else (type_,)
            result = element_of(inferred[0])
            operation = Operation(name, [Value(each) for each in types], [result], dict(attributes))
            return apply_elementwise(operation, list(np.broadcast_arrays(*[x for x, _ in parts]))), result


def _agree(a: Any, b: Any, is_exact: bool) -> Any:
    a, b = np.broadcast_arrays(np.atleast_1d(a), np.atleast_1d(b))
    if a.dtype.kind != "f":
        return a == b
    if not is_exact:
        return np.isclose(a.astype(np.float64), b.astype(np.float64), 1e-5 if a.dtype.itemsize > 2 else 1e-2)
    both_nan = np.isnan(a) & np.isnan(b)
    return both_nan | ((a == b) & (np.signbit(a) == np.signbit(b)))
