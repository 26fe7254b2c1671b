"""The bench's side of a worker process: starts it, sends commands, bounds its time, ends it with its
children.
"""

from __future__ import annotations

import compileall
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

START_LIMIT = 300.0  # seconds to import torch and build the workload
ROOT = Path(__file__).parents[1]


def write_bytecode() -> None:
    """What pip does when it installs a package: a checkout has no bytecode before its first import."""
    compileall.compile_dir(ROOT / "lamina", quiet=1)


class Worker:
    """A running `bench.worker`. Every answer is a dict; {"reason": ...} says why there is no result."""

    def __init__(self, workload: str, peer: str, threads: int, cache: Path) -> None:
        self._errors = tempfile.TemporaryFile(mode="w+", encoding="utf-8")  # noqa: SIM115  (closed in __exit__)
        # Its own caches: fresh for a cold compile, shared by the cold and the warm one.
        environment = os.environ | {
            "LAMINA_CACHE_DIR": str(cache / "lamina"),
            "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
            "OMP_NUM_THREADS": str(threads),
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker", workload, peer, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            cwd=ROOT,
            # Its own group: an interrupt reaches only the bench, which then ends the worker and all that it
            # started.
            start_new_session=True,
        )
        self._started = False

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def ask(self, command: str, limit: float) -> dict[str, Any]:
        """Send a command and wait at most `limit` seconds (the first one also has the time to start)."""
        assert self._process.stdin is not None
        if not self._started:
            self._started, limit = True, limit + START_LIMIT
        try:
            self._process.stdin.write(command.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return {"reason": self._describe_end()}
        line = self._read_line(time.monotonic() + limit)
        if line is None:
            return {"reason": f"{command.split()[0]} took more than {limit:.0f} s"}
        if not line:
            return {"reason": self._describe_end()}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _read_line(self, deadline: float) -> bytes | None:
        """A line, b"" at the end of the process, None past the deadline. Answers come one at a time."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        received = b""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while not received.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                part = os.read(descriptor, 65536)
                if not part:
                    return b""
                received += part
        return received

    def _describe_end(self) -> str:
        """The last line of what the process said, with how it ended."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
        end = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"process ended with {end}: {lines[-1] if lines else 'no message'}"[:160]
