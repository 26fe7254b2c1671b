"""The disk cache: content-addressed entries, written atomically, checked when read, never trusted.

An entry's name is the SHA-256 of everything that its content depends on: IR text, options, versions,
processor features. A file is a header (magic, checksum) and the payload. A damaged, foreign or
half-written file is removed with one warning a process and counts as missing. Payloads are text, JSON or
object code: nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import torch

MAGIC = b"lamina-cache-1\n"
CHECKSUM_BYTES = 32


@functools.cache
def version_stamp() -> str:
    """What the compiler itself is: torch's and Python's versions, and size and time of each source file."""
    root = Path(__file__).resolve().parents[1]
    files = sorted(root.rglob("*.py"))
    facts = [f"{path.relative_to(root)}:{path.stat().st_size}:{path.stat().st_mtime_ns}" for path in files]
    return "\n".join([torch.__version__, platform.python_version(), platform.machine(), *facts])


def key_of(*parts: str | bytes) -> str:
    """The name of an entry that depends on `parts` and on the compiler itself."""
    digest = hashlib.sha256(version_stamp().encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@dataclass(slots=True)
class Cache:
    """Entries below a folder, made when the first entry is written. `folder` None: nothing is kept."""

    folder: Path | None
    hits: int = 0
    is_warned: bool = field(default=False)

    def get(self, kind: str, key: str) -> bytes | None:
        """The payload of an entry, or None."""
        if self.folder is None:
            return None
        path = self._path(kind, key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        start = len(MAGIC) + CHECKSUM_BYTES
        payload = data[start:]
        if data[: len(MAGIC)] != MAGIC or data[len(MAGIC) : start] != hashlib.sha256(payload).digest():
            self.reject(kind, key, "damaged or not lamina's")
            return None
        self.hits += 1
        return payload

    def put(self, kind: str, key: str, payload: bytes) -> None:
        """Write an entry; a full or read-only disk only means that nothing is kept."""
        if self.folder is None:
            return
        path = self._path(kind, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + hashlib.sha256(payload).digest() + payload)
            os.replace(name, path)
        except OSError as error:
            self._warn(f"cannot keep compiled code in {self.folder}: {error}")

    def reject(self, kind: str, key: str, reason: str) -> None:
        """Remove an entry that is not what it should be."""
        path = self._path(kind, key)
        with contextlib.suppress(OSError):
            path.unlink()
        self._warn(f"cache entry {path} is {reason}: it is rebuilt")

    def _path(self, kind: str, key: str) -> Path:
        assert self.folder is not None
        return self.folder / kind / key[:2] / key[2:]

    def _warn(self, text: str) -> None:
        if not self.is_warned:
            self.is_warned = True
            warnings.warn(f"lamina: {text}", stacklevel=3)


def entries(folder: Path) -> list[tuple[str, int, int]]:
    """(kind, number of entries, bytes) for each kind of entry in a cache folder."""
    rows = []
    for kind in sorted(path for path in folder.glob("*") if path.is_dir()):
        files = [path for path in kind.rglob("*") if path.is_file()]
        rows.append((kind.name, len(files), sum(path.stat().st_size for path in files)))
    return rows
