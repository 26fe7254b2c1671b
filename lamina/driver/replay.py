"""The folder that replays a failed compile: the error, the graph, the options, the IR where there is one."""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Mapping

import torch

from lamina.errors import CompilerBug
from lamina.options import Options


def write_replay(
    error: Exception, graph: torch.fx.GraphModule | None, texts: Mapping[str, str], options: Options
) -> CompilerBug:
    """Write the folder and give the CompilerBug that names it. A disk that refuses loses only the folder."""
    trace = "".join(traceback.format_exception(error))
    files = {"error.txt": trace, "options.txt": options.cache_key() + "\n"}
    files |= {f"{stage}.mlir": text for stage, text in texts.items()}
    if graph is not None:
        files["graph.py"] = graph.print_readable(print_output=False, include_stride=True)
    name = hashlib.sha256("\0".join(files.values()).encode()).hexdigest()[:16]
    folder = options.replay_path() / name
    stage = getattr(error, "stage", "") or "compile"
    location = error.location if isinstance(error, CompilerBug) else None
    told = error.message if isinstance(error, CompilerBug) else f"{type(error).__name__}: {error}"
    command = f"{sys.executable} -m lamina opt {folder}/before.mlir" if "before" in texts else ""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as problem:
        return CompilerBug(f"{told} (no replay folder: {problem})", stage=stage, location=location)
    message = f"compiling failed with {told.splitlines()[0]}"
    return CompilerBug(
        message, stage=stage, location=location, replay_folder=str(folder), replay_command=command
    )
