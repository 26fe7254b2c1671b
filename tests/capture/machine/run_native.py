"""Leaves the machine before every instruction of a program, goes on natively, and compares with CPython.

python tests/capture/machine/run_native.py [FIRST LAST]    prints every difference and the counts; needs no torch

Without numbers: the programs of these tests; with them: the random programs of these seeds.
"""

from __future__ import annotations

import importlib.util
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 120
"""At most so many places to leave at are tried in one program: all, or evenly spread ones."""


def load_beside(name, folder=HERE):
    """A file of these tests as a module, without the packages it lies in (they import torch)."""
    if name not in sys.modules:
        specification = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        module = importlib.util.module_from_spec(specification)
        sys.modules[name] = module
        specification.loader.exec_module(module)
    return sys.modules[name]


run_plain = load_beside("run_plain", HERE.parent)
run_plain.load_machine()

from lamina.capture.machine.loop import Machine  # noqa: E402
from lamina.capture.machine.native_resume import (  # noqa: E402
    CO_SUSPENDS,
    make_native_resume,
    read_layout,
    read_values,
)
from lamina.capture.machine.signals import RETURNED, TracingStopped  # noqa: E402
from lamina.capture.opcodes.table import all_handlers  # noqa: E402
from lamina.capture.values.world import World  # noqa: E402
from lamina.errors import Unsupported  # noqa: E402


class LeavingWorld(World):
    def check_origin(self, error):
        """Errors of the part that runs natively come from outside the machine."""


class LeavingMachine(Machine):
    """A machine that asks before each step whether the frame goes on natively from there."""

    def __init__(self, leaves_at):
        super().__init__(all_handlers(), LeavingWorld())
        self.leaves_at = leaves_at
        self.steps = 0
        self.left = []
        self.refused = []

    def _step_until_signal(self, frame):
        instructions = frame.decoded.instructions
        can_leave = frame.names is None and not frame.code.co_flags & CO_SUSPENDS
        while True:
            if can_leave:
                self.steps += 1
                if self.leaves_at(self.steps):
                    resume = self._leave(frame)
                    if resume is not None:
                        # Exceptions of the native part are the frame's own: it is left for good.
                        values = read_values(frame)
                        frame.position = -1
                        frame.handled = None
                        frame.value = call_handling(self.handled_exception(), resume, values)
                        return RETURNED
            instruction = instructions[frame.position]
            frame.position += 1
            outcome = instruction.handler(self, frame, instruction)
            if outcome is not None:
                return outcome

    def _leave(self, frame):
        try:
            resume = make_native_resume(frame.function, read_layout(frame))
        except Unsupported as error:
            self.refused.append((frame.code.co_name, frame.position, error.message))
            return None
        self.left.append((frame.code.co_name, frame.position))
        return resume

    def unwind(self, frame, error):
        if frame.position == -1:
            raise error
        super().unwind(frame, error)


def call_handling(handled, resume, values):
    """Call while `handled` is being handled, as it is in the frames that the machine keeps."""
    if handled is None:
        return resume(values)
    try:
        raise handled
    except BaseException:
        return resume(values)


def observe_leaving(program, leaves_at):
    """(what the run gave, the machine after it)."""
    machine = LeavingMachine(leaves_at)
    seen = run_plain.observe(lambda: machine.world.call(program, (), {}))
    # Generators that the machine has begun stay its own, also for native code.
    return tuple(text.replace("GeneratorValue", "generator") for text in seen), machine


def choose_places(count):
    if count <= LIMIT:
        return range(1, count + 1)
    return sorted({1 + place * count // LIMIT for place in range(LIMIT)})


def compare_program(program):
    """(differences, refusals, how many places were left natively)."""
    expected = run_plain.observe(program)
    try:
        plain, machine = observe_leaving(program, lambda step: False)
    except TracingStopped:
        return [], [], 0
    differences, refused, left = [], [], 0
    if plain != expected:
        differences.append((program.__name__, "machine alone", expected, plain))
    choose = random.Random(program.__name__)
    runs = [(place, place.__eq__) for place in choose_places(machine.steps)]
    runs += [(f"random {i}", lambda step: choose.random() < 0.05) for i in range(3)]
    for label, leaves_at in runs:
        got, machine = observe_leaving(program, leaves_at)
        left += len(machine.left)
        refused += machine.refused
        if got != expected:
            differences.append((program.__name__, label, machine.left, expected, got))
    return differences, refused, left


def compare_programs(programs):
    differences, refused, left = [], [], 0
    for program in programs:
        found = compare_program(program)
        differences += found[0]
        refused += found[1]
        left += found[2]
    return differences, refused, left


if __name__ == "__main__":
    first, last = [int(text) for text in sys.argv[1:3]] or (0, 0)
    made = [load_beside("random_programs").make_program(seed) for seed in range(first, last)]
    programs = run_plain.load_programs() + load_beside("programs_frames").PROGRAMS if not made else []
    programs += [program for program in made if program is not None]
    found, unsupported, times = compare_programs(programs)
    for difference in found:
        print("different:", *difference, sep="\n  ")
    for refusal in sorted(set(unsupported)):
        print("refused:", *refusal)
    print(
        f"python {sys.version.split()[0]}: {len(programs)} programs, left {times} times, "
        f"{len(found)} differ, {len(unsupported)} refused"
    )
    sys.exit(bool(found or unsupported))
