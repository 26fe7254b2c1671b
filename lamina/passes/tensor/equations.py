"""Algebra as declared equations: what they are, how they are read from text, matched and built.

`Equation("divf(x, C)", "mulf(x, R)", where=..., compute={"R": ...})`: small letters stand for any value,
capitals for constants with one value for all elements, numbers for such constants; functions are operations
of `arith` and `math`, a comparison's predicate follows an underscore (`cmpf_uno`). The same text is
evaluated by the tests, on every value of a 16-bit type: an equation is its own test.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lamina.ir.attributes import FloatAttr, encode_scalar, plain
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops import is_commutative, record
from lamina.ir.ops.arith import CMPF, CMPI
from lamina.ir.types import ScalarType, TensorType, Type, element_of
from lamina.passes.tensor.fold import make_splat, splat_constant

Number: TypeAlias = float | int | bool
Bindings: TypeAlias = dict[str, Any]
"""Small letters to Value, capitals to Number."""


@dataclass(frozen=True, slots=True)
class Call:
    """An operation applied to terms; `predicate` for comparisons."""

    name: str
    arguments: tuple[Term, ...]
    predicate: int | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    name: str

    @property
    def is_constant(self) -> bool:
        return self.name.isupper()


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; `exact` spelling matters: -0.0 is not 0.0."""

    value: float | int | bool


Term: TypeAlias = Call | Variable | Literal


@dataclass(frozen=True, slots=True)
class Equation:
    """`before` may be replaced by `after`, for every value of every element type in the domain.

    where: (capitals' values, element type) -> whether it holds there. compute: new capitals from old ones,
    (values, element type) -> number. `domain`: the operands are "float", "integer" or "boolean".
    Float equations hold bit for bit, but for the sign and payload of nan.
    """

    before: str
    after: str
    domain: str
    where: Callable[[Mapping[str, Number], ScalarType], bool] | None = None
    compute: Mapping[str, Callable[[Mapping[str, Number], ScalarType], Number]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.before} -> {self.after}"


def parse_term(text: str) -> Term:
    """A term from its text; ValueError when it is not one."""
    return _term(ast.parse(text, mode="eval").body)


def _term(node: ast.expr) -> Term:
    match node:
        case ast.Name(id="inf"):
            return Literal(float("inf"))
        case ast.Name(id=name):
            return Variable(name)
        case ast.Constant(value=value) if isinstance(value, int | float):
            return Literal(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)) if isinstance(value, int | float):
            return Literal(-value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
            return Literal(float("-inf"))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _call(name, tuple(map(_term, arguments)))
    raise ValueError(f"not a term: {ast.unparse(node)}")


def _call(name: str, arguments: tuple[Term, ...]) -> Call:
    stem, _, suffix = name.partition("_")
    if suffix:
        names = CMPF if stem == "cmpf" else CMPI
        return Call(f"arith.{stem}", arguments, names.index(suffix))
    full = f"arith.{name}" if record(f"arith.{name}") is not None else f"math.{name}"
    if record(full) is None:
        raise ValueError(f"no operation {name!r} in arith or math")
    return Call(full, arguments)


@dataclass(frozen=True, slots=True)
class Compiled:
    """An equation with its terms read."""

    equation: Equation
    before: Call
    after: Term


def compile_equation(equation: Equation) -> Compiled:
    """Read both sides; ValueError when `before` is not an operation."""
    before = parse_term(equation.before)
    if not isinstance(before, Call):
        raise ValueError(f"{equation}: the left side must be an operation")
    return Compiled(equation, before, parse_term(equation.after))


def apply(compiled: Compiled, operation: Operation) -> Value | None:
    """The value the right side amounts to, built before `operation`; None where it does not match."""
    equation = compiled.equation
    type_, operand_type = operation.result.type, _operand_type(operation)
    if not isinstance(type_, TensorType) or not isinstance(operand_type, TensorType):
        return None
    element = operand_type.element
    if domain_of(element) != equation.domain:
        return None
    bindings: Bindings = {}
    if not _match(compiled.before, operation, bindings):
        return None
    numbers = {name: value for name, value in bindings.items() if name.isupper()}
    if equation.where is not None and not equation.where(numbers, element):
        return None
    for name, make in equation.compute.items():
        bindings[name] = numbers[name] = make(numbers, element)
    return _build(compiled.after, Builder.before_op(operation), bindings, type_, operand_type)


def _operand_type(operation: Operation) -> Type:
    """The type of what the operation works on: of a select, the choices."""
    return operation.operand(1 if operation.name == "arith.select" else 0).type


def domain_of(element: ScalarType) -> str:
    """The domain an element type belongs to."""
    if element.is_float:
        return "float"
    return "boolean" if element.name == "i1" else "integer"


def _match(term: Call, operation: Operation, bindings: Bindings) -> bool:
    if term.name != operation.name or len(term.arguments) != len(operation.operands):
        return False
    if term.predicate is not None and plain(operation.attributes["predicate"]) != term.predicate:
        return False
    if _match_all(term.arguments, operation.operands, bindings):
        return True
    if not is_commutative(operation):
        return False
    return _match_all(term.arguments, operation.operands[::-1], bindings)


def _match_all(terms: tuple[Term, ...], values: tuple[Value, ...], bindings: Bindings) -> bool:
    trial = dict(bindings)
    if not all(_match_value(term, value, trial) for term, value in zip(terms, values, strict=True)):
        return False
    bindings.update(trial)
    return True


def _match_value(term: Term, value: Value, bindings: Bindings) -> bool:
    match term:
        case Call():
            operation = value.defining_op
            return operation is not None and _match(term, operation, bindings)
        case Literal(wanted):
            number = splat_constant(value)
            return number is not None and _same_number(number, wanted, element_of(value.type))
    if not term.is_constant:
        return bindings.setdefault(term.name, value) is value
    number = splat_constant(value)
    if number is None:
        return False
    known = bindings.setdefault(term.name, number)
    return encode_scalar(known, element_of(value.type)) == encode_scalar(number, element_of(value.type))


def _same_number(number: Number, wanted: Number, element: ScalarType) -> bool:
    if element.is_float:
        return FloatAttr(float(number)) == FloatAttr(float(wanted))
    return encode_scalar(number, element) == encode_scalar(wanted, element)


def _build(
    term: Term, builder: Builder, bindings: Bindings, type_: TensorType, operand_type: TensorType
) -> Value:
    """A result of the whole has `type_`; below a comparison or another change of type it is the operands'."""
    match term:
        case Literal(value):
            return make_splat(builder, value, type_)
        case Variable(name):
            bound = bindings[name]
            return bound if isinstance(bound, Value) else make_splat(builder, bound, type_)
    inner = operand_type if term.name.startswith(("arith.cmp", "math.is")) else type_
    arguments = [_build(argument, builder, bindings, inner, operand_type) for argument in term.arguments]
    attributes = None if term.predicate is None else {"predicate": term.predicate}
    return builder.value(term.name, arguments, type_, attributes)
