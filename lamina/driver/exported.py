"""Programs of `torch.export` as input: the module that each is, with the sizes that it was exported for.

program = torch.export.export(model, (x,), dynamic_shapes={"x": {0: Dim("rows")}})
fast = lamina.compile(program)      a module: the program's parameters and buffers, the model's signature
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

from lamina.errors import UserError

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


def is_exported(subject: Any) -> TypeGuard[ExportedProgram]:
    """Whether something is an exported program. torch's export is not imported for the question."""
    exported = sys.modules.get("torch.export.exported_program")
    return exported is not None and isinstance(subject, exported.ExportedProgram)


def module_of(program: ExportedProgram) -> torch.nn.Module:
    """The program as a module that checks its inputs as the program's own `module()` does.

    Raises UserError where torch makes no module of it.
    """
    try:
        return program.module()
    except Exception as error:
        raise UserError(
            f"the exported program cannot be made a module: {type(error).__name__}: {error}",
            hint="see whether program.module() works",
        ) from error


def has_dynamic_sizes(program: ExportedProgram) -> bool:
    """Whether the program is for more than one set of sizes."""
    return bool(program.range_constraints)
