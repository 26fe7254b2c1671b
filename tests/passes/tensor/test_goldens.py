"""Golden texts: a file says the passes, the text before and, after `// =>`, the text that must come out."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.ir.opt import opt
from lamina.ir.passes import Context
from lamina.passes.tensor import PASSES, REGISTRY
from tests.passes.tensor.programs import AVX512

FOLDER = Path(__file__).parent
ARROW = "// =>\n"


def context() -> Context:
    return Context(target=AVX512)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.mlir")), ids=lambda path: path.stem)
def test_golden(path: Path, request: pytest.FixtureRequest) -> None:
    header, _, rest = path.read_text().partition("\n")
    passes = header.removeprefix("// passes: ")
    before, _, expected = rest.partition(ARROW)
    printed = opt(before, passes, REGISTRY, filename=str(path), context=context(), level="tensor")
    if request.config.getoption("--bless"):
        path.write_text(f"{header}\n{before}{ARROW}{printed}")
        return
    assert printed == expected
    assert opt(printed, passes, REGISTRY, context=context()) == printed, (
        "running it again must change nothing"
    )


def test_every_pass_has_a_golden() -> None:
    used = {
        name
        for path in FOLDER.glob("*.mlir")
        for name in path.read_text().partition("\n")[0].removeprefix("// passes: ").split(",")
    }
    # No operation of the compiler's own has an expansion: test_expand.py brings one.
    assert {each.name for each in PASSES} - {"expand"} <= used
