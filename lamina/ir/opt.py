"""Run passes on text: what `lamina opt FILE --passes a,b` does."""

from __future__ import annotations

from collections.abc import Mapping

from lamina.ir.passes import Context, Pass, PassManager, parse_pipeline
from lamina.ir.text import parse_module, print_module
from lamina.ir.verify import verify


def opt(
    text: str,
    pipeline: str,
    registry: Mapping[str, Pass],
    *,
    filename: str = "<text>",
    context: Context | None = None,
    manager: PassManager | None = None,
    level: str | None = None,
    locations: bool = False,
) -> str:
    """The module in `text` after the passes of `pipeline`, as text.

    The module is verified before and after every pass, at first against `level` if one is given. Operations
    without a location have their place in `text`. manager: settings for printing, timing, bisecting; its
    pipeline is replaced. Raises ParseError, UserError for a bad pipeline, VerificationError.
    """
    manager = manager or PassManager(pipeline=parse_pipeline("", registry), verify=True)
    manager.pipeline = parse_pipeline(pipeline, registry)
    module = parse_module(text, filename, locate=True)
    verify(module, level)
    manager.run(module, context)
    return print_module(module, locations=locations)
