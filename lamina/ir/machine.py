"""The machine that code is made for: a `Target` record, its figures measured on the running CPU.

`host()` gives the record of this machine. Sizes and features come from the operating system at once;
bandwidths, arithmetic speed and the cost of a parallel launch are measured (in under half a second) the first
time they are needed and kept on disk, one file a kind of machine, so that later processes only read them.
"""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import json
import os
import platform
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lamina.errors import UserError
from lamina.options import Options

VECTOR_BITS = {"scalar": 0, "neon": 128, "avx2": 256, "avx512": 512}
"""Register width of each vector instruction set; 0 = one element at a time."""
SLOWEST_LAUNCH_SECONDS = 2e-5
AVX512_FEATURES = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})
FORMAT = 2
"""Version of the measured files: raise it when a figure changes its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What code is made for. Cache sizes in bytes (l1 and l2 of one core, l3 of all), speeds per second.

    `copy_bandwidth`: bytes read plus written by all cores copying memory; `cache_bandwidth`: the same within
    L2; `peak_flops`: float32 additions plus multiplications of all cores; `launch_seconds`: one parallel
    kernel that does nothing.
    """

    name: str
    isa: str
    vector_bits: int
    features: tuple[str, ...]
    cores: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    copy_bandwidth: float
    cache_bandwidth: float
    peak_flops: float
    launch_seconds: float

    def to_text(self) -> str:
        """One JSON object; `from_text` reads it back."""
        return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True)

    @staticmethod
    def from_text(text: str) -> Target:
        """UserError when the text is not a target's: says which fields are wrong."""
        try:
            values = json.loads(text)
        except ValueError as error:
            raise UserError(f"a target's text must be JSON: {error}") from None
        kinds = {field.name: field.type for field in dataclasses.fields(Target)}
        if not isinstance(values, dict) or set(values) != set(kinds):
            wrong = sorted(set(kinds) ^ set(values)) if isinstance(values, dict) else ["all"]
            hint = f"a target has: {', '.join(kinds)}"
            raise UserError(f"wrong fields in a target's text: {', '.join(wrong)}", hint=hint)
        for name, kind in kinds.items():
            if not _is_of_kind(values[name], str(kind)):
                raise UserError(f"target field {name!r} is {values[name]!r}", hint=f"{kind} is needed")
        return Target(**{**values, "features": tuple(values["features"])})

    def with_isa(self, isa: str) -> Target:
        """The same machine using other vector instructions; UserError when there are none of that name."""
        if isa not in VECTOR_BITS:
            raise UserError(f"unknown vector instructions {isa!r}", hint=f"allowed: {', '.join(VECTOR_BITS)}")
        return dataclasses.replace(self, isa=isa, vector_bits=VECTOR_BITS[isa])


def _is_of_kind(value: Any, kind: str) -> bool:
    if kind == "str":
        return isinstance(value, str)
    if kind == "int":
        return type(value) is int and value >= 0
    if kind == "float":
        return isinstance(value, int | float) and value > 0
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def host(options: Options | None = None) -> Target:
    """The running machine, with the vector instructions that the options ask for ("auto": its widest)."""
    options = options or Options.from_user()
    target = _measured_host(options.cache_path() / "machines")
    return target if options.vector_isa == "auto" else target.with_isa(options.vector_isa)


def identity(options: Options) -> str:
    """What tells this machine from others, and whether its measured figures are settled.

    Figures taken while other programs use the cores are not kept: what is decided by them is not for later.
    """
    known = _known_figures()
    is_settled = (options.cache_path() / "machines" / f"{_identify(known)}.json").exists()
    return json.dumps([FORMAT, known, options.vector_isa, is_settled], sort_keys=True)


@cache
def _measured_host(folder: Path) -> Target:
    known = _known_figures()
    path = folder / f"{_identify(known)}.json"
    target = _read(path)
    if target is not None:
        return target
    is_busy = _is_busy(known["cores"])
    target = Target(**known, **measure(known))
    if not is_busy:
        _write(path, target)
    return target


def _is_busy(cores: int) -> bool:
    """Whether other programs use the cores: what is measured then is used, but not kept."""
    try:
        return os.getloadavg()[0] > cores
    except OSError:
        return False


def _read(path: Path) -> Target | None:
    """The stored record; None when it is missing or damaged (it is then measured again)."""
    try:
        return Target.from_text(path.read_text())
    except (OSError, UnicodeDecodeError, UserError):
        return None


def _write(path: Path, target: Target) -> None:
    """Store atomically. A folder that cannot be written costs only the next process a measurement."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as file:
            file.write(target.to_text())
        os.replace(file.name, path)
    except OSError:
        return


def _identify(known: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps([FORMAT, known], sort_keys=True).encode()).hexdigest()[:20]


@cache
def _known_figures() -> dict[str, Any]:
    """What the operating system tells without measuring."""
    name, features = _processor()
    isa = "scalar"
    if features >= AVX512_FEATURES:
        isa = "avx512"
    elif {"avx2", "fma"} <= features:
        isa = "avx2"
    elif platform.machine() in ("aarch64", "arm64"):
        isa = "neon"
    caches = [_cache_bytes(level, default) for level, default in ((1, 1 << 15), (2, 1 << 19), (3, 1 << 23))]
    return {
        "name": name,
        "isa": isa,
        "vector_bits": VECTOR_BITS[isa],
        "features": tuple(sorted(features)),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "l1_bytes": caches[0],
        "l2_bytes": caches[1],
        "l3_bytes": caches[2],
    }


def _processor() -> tuple[str, frozenset[str]]:
    """Model name and feature flags of the first processor."""
    name, features = platform.machine(), frozenset[str]()
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return name, features
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            name = value.strip()
        if key.strip() in ("flags", "Features"):
            return name, frozenset(value.split())
    return name, features


def _cache_bytes(level: int, default: int) -> int:
    """Bytes of the data cache of that level, from /sys, else sysconf, else `default`."""
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            facts = [(entry / name).read_text().strip() for name in ("level", "type", "size")]
        except OSError:
            continue
        if facts[0] == str(level) and facts[1] != "Instruction" and facts[2].endswith("K"):
            return int(facts[2][:-1]) * 1024
    word = f"SC_LEVEL{level}_{'D' if level == 1 else ''}CACHE_SIZE"
    found = os.sysconf(word) if word in os.sysconf_names else 0
    return found if found > 0 else default


# Measurements. Each takes the best of a few rounds: other programs only ever make one slower.


def measure(known: dict[str, Any]) -> dict[str, Any]:
    """The figures that need measuring, about 0.2 s."""
    cores = known["cores"]
    return {
        "copy_bandwidth": _copy_bandwidth(cores, 24 << 20, 4),
        "cache_bandwidth": _copy_bandwidth(1, known["l2_bytes"] // 4, 24) * cores,
        "peak_flops": _peak_flops(),
        "launch_seconds": _launch_seconds(),
    }


def _best(action: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-9)


def _copy_bandwidth(cores: int, size: int, rounds: int) -> float:
    """Bytes read plus written a second, when each core copies `size` bytes of its own."""
    pairs = [(np.zeros(size, np.uint8), np.ones(size, np.uint8)) for _ in range(cores)]

    def copy_all() -> None:
        threads = [threading.Thread(target=np.copyto, args=pair) for pair in pairs[1:]]
        for thread in threads:
            thread.start()
        np.copyto(*pairs[0])
        for thread in threads:
            thread.join()

    return 2.0 * size * cores / _best(copy_all, rounds)


def _peak_flops() -> float:
    """float32 operations a second of NumPy's matrix product, which uses all cores."""
    size = 384
    left = np.ones((size, size), np.float32)
    return 2.0 * size**3 / _best(lambda: left @ left, 16)


DEFAULT_LAUNCH_SECONDS = 4e-6
"""Where no OpenMP library is loaded to measure with."""


def _launch_seconds() -> float:
    """Fork and join of all threads of the OpenMP library that is loaded in this process."""
    library = _loaded_openmp()
    if library is None:
        return DEFAULT_LAUNCH_SECONDS
    try:
        start_parallel = ctypes.CDLL(library).GOMP_parallel
    except (OSError, AttributeError):
        return DEFAULT_LAUNCH_SECONDS
    # Any C function that ignores its argument serves as the empty body: a Python one would take the GIL.
    nothing = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p)
    start_parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    # On a machine whose cores are all busy a fork waits for the scheduler: that is no property of the
    # machine, and a figure of milliseconds would keep every kernel on one thread for good.
    return min(_best(lambda: start_parallel(nothing, None, 0, 0), 200), SLOWEST_LAUNCH_SECONDS)


def _loaded_openmp() -> str | None:
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    names = [line.split()[-1] for line in lines if "libgomp" in line]
    return names[0] if names else None
