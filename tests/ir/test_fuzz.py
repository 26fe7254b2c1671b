"""Damaged texts: reading them ends in a ParseError or in a program that prints and reads back, as in MLIR."""

from __future__ import annotations

import random

import pytest

from lamina.ir.compare import equal
from lamina.ir.text import ParseError, parse_module, print_module
from lamina.ir.verify import find_problems
from tests.ir.samples import samples
from tests.ir.test_text import ATTRIBUTES, CFG, TYPES, with_attribute
from tests.ir.upstream import HAS_MLIR, judge_each

SIGNS = [
    *'%@^#!"<>()[]{}:,=-+*?0159.xeE \n_af',
    "->",
    "//",
    "0x",
    "tensor<",
    "i32",
    "f32",
    "%0",
    "#0",
    ": i8",
]


def damaged(count: int, seed: int) -> list[str]:
    """Samples with signs left out, put in and replaced."""
    generator = random.Random(seed)
    whole = [
        *samples(),
        *map(with_attribute, ATTRIBUTES),
        *(f'%0 = "t.op"() : () -> {t}\n' for t in TYPES),
        CFG,
    ]
    texts = []
    while len(texts) < count:
        text = generator.choice(whole)
        for _ in range(generator.choice([1, 1, 2])):
            at = generator.randrange(len(text))
            length = generator.choice([0, 1, 1, generator.randrange(1, 12)])
            text = text[:at] + generator.choice([*SIGNS, ""]) + text[at + length :]
        if "-----" not in text and "{-#" not in text:
            texts.append(text)
    return texts


def is_accepted(text: str) -> bool:
    """Whether it is read and verified; what is read also prints and reads back."""
    try:
        module = parse_module(text)
    except ParseError:
        return False
    printed = print_module(module)
    assert equal(parse_module(printed), module) and print_module(parse_module(printed)) == printed
    return not find_problems(module)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_texts_never_crash(seed: int) -> None:
    verdicts = [is_accepted(text) for text in damaged(400, seed)]
    assert 0 < sum(verdicts) < len(verdicts)


@pytest.mark.skipif(not HAS_MLIR, reason="needs iree-base-compiler")
def test_mlir_nearly_always_agrees() -> None:
    """It also looks into attributes and types of its own dialects, which only have a spelling here."""
    texts = damaged(800, 99)
    ours, theirs = [is_accepted(text) for text in texts], judge_each(texts)
    different = [text for text, a, b in zip(texts, ours, theirs, strict=True) if a != b]
    assert len(different) <= len(texts) // 50, "\n----\n".join(different)


def test_a_text_need_not_end_in_a_newline() -> None:
    text = '"t.a"() : () -> ()\n"t.b"() : () -> ()'
    assert len(list(parse_module(text).body)) == 2
    with pytest.raises(ParseError):
        parse_module(text + "-")
