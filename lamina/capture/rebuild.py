"""Writes `finish`: makes the user's result of the graph's outputs and replays side effects on real objects.

v0 = args[1]                    what must be read is read before anything is written
n1 = OrderedDict.__new__(c0)    objects made in the program are made anew in each call
v0.__dict__['keys'] = outputs[2]
return n1
"""

from __future__ import annotations

import collections

from lamina.capture.machine.signals import MISSING, UNBOUND, Value
from lamina.capture.rebuild_values import ValueRebuilder, order_to_add
from lamina.capture.side_effects import AttributeWrite, ContainerWrite, SideEffects
from lamina.capture.values.open_containers import OpenContainer
from lamina.capture.values.outside import dict_base
from lamina.capture.values.sizes import NumberValue, SizeTuple
from lamina.capture.values.walks import advance


class Rebuilder(ValueRebuilder):
    """Writes the whole function: the result's value, then what the program changed outside."""

    def write_all(self, result: Value, effects: SideEffects) -> None:
        """The whole function: values, then writes, then printed effects, then the result."""
        returned = self.express(result)
        writes = [
            *self._express_containers(effects.containers),
            *self._express_open_containers(effects.open_containers),
            *self._express_attributes(effects.attributes),
            *self._express_names(effects),
        ]
        for function, arguments, keywords in effects.calls:
            texts = [self._express_argument(argument) for argument in arguments]
            texts += [f"{name}={self._express_argument(value)}" for name, value in keywords.items()]
            writes.append(f"{self.writer.constant(function)}({', '.join(texts)})")
        for walk in effects.walks:
            writes.append(f"{self._name(advance)}({walk.source.expression(self.writer)}, {walk.steps})")
        for switch in effects.switches:
            writes.append(f"{self.writer.constant(switch.function)}({self.express(switch.value)})")
        for line in (*writes, *self.late):
            self.writer.add(line)
        self.writer.add(f"return {returned}")

    def _express_argument(self, value: Value) -> str:
        """An argument of a replayed call: a constant, or made of numbers that vary."""
        is_made = type(value) in (NumberValue, SizeTuple, tuple)
        return self.express(value) if is_made else self.writer.constant(value)

    # writes to real objects

    def _express_containers(self, writes: list[ContainerWrite]) -> list[str]:
        lines = []
        for write in writes:
            target = write.record.source.expression(self.writer)
            copy = write.record.copy
            if isinstance(copy, dict):
                base = dict_base(copy)
                lines.append(f"{self._name(base.clear)}({target})")
                for key, item in base.items(copy):
                    setter = self._name(base.__setitem__)
                    lines.append(f"{setter}({target}, {self.express(key)}, {self.express(item)})")
            elif isinstance(copy, list):
                items = ", ".join(self.express(item) for item in list.__iter__(copy))
                lines.append(f"{self._name(list.__setitem__)}({target}, slice(None), [{items}])")
            else:
                ordered = order_to_add(copy, may_copy=False)[0] if isinstance(copy, set) else copy
                items = ", ".join(self.express(item) for item in ordered)
                grow = "extend" if isinstance(copy, collections.deque) else "update"
                lines += [f"{target}.clear()", f"{target}.{grow}([{items}])"]
        return lines

    def _express_open_containers(self, changed: list[OpenContainer]) -> list[str]:
        targets = [each.source.expression(self.writer) for each in changed]
        written = [
            each.list_writes(target, self.express) for each, target in zip(changed, targets, strict=True)
        ]
        return [line for lines in written for line in lines]

    def _express_attributes(self, writes: list[AttributeWrite]) -> list[str]:
        lines = []
        for write in writes:
            target = write.source.expression(self.writer)
            value = None if write.value is MISSING else self.express(write.value)
            if write.in_dict:
                place = self.writer.read(f"{target}.__dict__")
                lines.append(
                    f"del {place}[{write.name!r}]" if value is None else f"{place}[{write.name!r}] = {value}"
                )
                continue
            if value is None:
                lines.append(f"{self._name(object.__delattr__)}({target}, {write.name!r})")
            else:
                lines.append(f"{self._name(object.__setattr__)}({target}, {write.name!r}, {value})")
        return lines

    def _express_names(self, effects: SideEffects) -> list[str]:
        lines = []
        for entries, name, value in effects.globals:
            names = self.writer.constant(entries)
            # What is deleted may have been set by the same call.
            is_deleted = value is UNBOUND
            lines.append(
                f"{names}.pop({name!r}, None)" if is_deleted else f"{names}[{name!r}] = {self.express(value)}"
            )
        for cell, value in effects.cells:
            place = f"{self._express_cell(cell)}.cell_contents"
            lines.append(f"del {place}" if value is UNBOUND else f"{place} = {self.express(value)}")
        return lines
