"""Equal computations merge where the first still holds: inside loops, and loads up to a write."""

from __future__ import annotations

from collections import Counter

import pytest

from lamina.ir.core import Operation
from lamina.ir.passes import Context
from lamina.ir.text import parse
from lamina.ir.verify import verify
from lamina.passes.loops import reuse

HEAD = """"builtin.module"() ({ "func.func"() ({
^bb0(%a: memref<64xf32>, %o: memref<64xf32>, %l: index, %i: index, %c: i1, %x: f32):
"""
TAIL = """
"func.return"() : () -> () }) {function_type = (memref<64xf32>, memref<64xf32>, index, index, i1, f32) -> (),
sym_name = "kernel_0"} : () -> () }) : () -> ()"""


def load(name: str, place: str = "%i") -> str:
    return f'%{name} = "memref.load"(%a, {place}) : (memref<64xf32>, index) -> f32\n'


def store(value: str, place: str = "%i") -> str:
    return f'"memref.store"(%{value}, %o, {place}) : (f32, memref<64xf32>, index) -> ()\n'


def add(name: str, left: str, right: str) -> str:
    return f'%{name} = "arith.addf"(%{left}, %{right}) : (f32, f32) -> f32\n'


def loop(body: str) -> str:
    return (
        '"scf.for"(%l, %l, %l) ({\n^bb0(%j: index):\n' + body + '"scf.yield"() : () -> ()\n'
        "}) : (index, index, index) -> ()\n"
    )


def branch(then: str, otherwise: str) -> str:
    end = '"scf.yield"() : () -> ()\n'
    return f'"scf.if"(%c) ({{\n{then}{end}}}, {{\n{otherwise}{end}}}) : (i1) -> ()\n'


def run(body: str) -> tuple[Operation, Counter[str]]:
    module = parse(HEAD + body + TAIL)
    reuse.run(module, Context())
    verify(module)
    return module, Counter(each.name for each in module.walk())


@pytest.mark.parametrize(
    ("body", "loads", "sums"),
    [
        (load("p") + load("q") + add("r", "p", "q") + store("r"), 1, 1),
        (load("p") + add("r", "p", "x") + load("q") + add("s", "x", "q") + store("r") + store("s"), 1, 1),
        (load("p") + store("p") + load("q") + store("q"), 2, 0),
        (load("p") + loop(load("q") + add("r", "p", "q")), 1, 1),
        (load("p") + loop(load("q") + store("q", "%j")), 2, 0),
        (loop(load("p") + load("q") + add("r", "p", "q") + store("r", "%j")), 1, 1),
        (loop(load("p", "%j") + store("p")) + loop(load("q", "%j") + store("q")), 2, 0),
        (branch(load("p") + store("p"), load("q") + store("q")) + load("r") + store("r"), 3, 0),
        (load("p") + branch(store("p"), store("x")) + load("q") + store("q"), 2, 0),
        (add("p", "x", "x") + loop(add("q", "x", "x") + store("q", "%j")) + store("p"), 0, 1),
    ],
    ids=[
        "the same place", "operands in either order", "a write between", "in a loop that writes nothing",
        "in a loop that writes", "within one iteration", "of two loops", "not of one branch only",
        "a write in a branch", "arithmetic whatever is written",
    ],
)  # fmt: skip
def test_what_is_merged(body: str, loads: int, sums: int) -> None:
    _, names = run(body)
    assert (names["memref.load"], names["arith.addf"]) == (loads, sums)


def test_what_is_left_uses_the_first() -> None:
    module, _ = run(load("p") + loop(load("q") + add("r", "p", "q") + add("s", "q", "p")))
    (total,) = [each for each in module.walk() if each.name == "arith.addf"]
    (first,) = [each for each in module.walk() if each.name == "memref.load"]
    assert set(total.operands) == {first.result}


def test_blocks_that_jump() -> None:
    """Of two branches that both load, neither dominates what follows."""
    body = (
        """"cf.cond_br"(%c)[^t, ^f] {operandSegmentSizes = array<i32: 1, 0, 0>} : (i1) -> ()
^t:
"""
        + load("p")
        + load("p2")
        + store("p2")
        + '"cf.br"()[^e] : () -> ()\n^f:\n'
        + load("q")
        + """"cf.br"()[^e] : () -> ()
^e:
"""
        + load("r")
        + store("r")
    )
    _, names = run(body)
    assert names["memref.load"] == 3
