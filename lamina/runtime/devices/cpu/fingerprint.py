"""A quick look at weights: has somebody written to them behind torch's back?

Writing through `tensor.data` or NumPy does not raise a tensor's version counter. A fingerprint of some words
spread over each weight sees such writes when they touch most of it (initialisation, scaling, copying), in
about a microsecond for ten weights. A write to single elements can stay unseen.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from lamina.runtime.devices.cpu.library import load_text

SAMPLES = 32
"""Words looked at in each weight, the first and spread evenly."""
TEXT = f"""
define i64 @lamina_fingerprint(ptr %table, i64 %count) {{
entry:
  br label %weight
weight:
  %w = phi i64 [ 0, %entry ], [ %w.next, %weight.done ]
  %hash = phi i64 [ 1469598103934665603, %entry ], [ %hash.out, %weight.done ]
  %is.end = icmp uge i64 %w, %count
  br i1 %is.end, label %exit, label %begin
begin:
  %slot = shl i64 %w, 1
  %address.at = getelementptr i64, ptr %table, i64 %slot
  %slot.words = or i64 %slot, 1
  %words.at = getelementptr i64, ptr %table, i64 %slot.words
  %address = load ptr, ptr %address.at, align 8
  %words = load i64, ptr %words.at, align 8
  br label %sample
sample:
  %k = phi i64 [ 0, %begin ], [ %k.next, %sample ]
  %inner = phi i64 [ %hash, %begin ], [ %mixed, %sample ]
  %scaled = mul i64 %k, %words
  %index = udiv i64 %scaled, {SAMPLES}
  %word.at = getelementptr i32, ptr %address, i64 %index
  %word = load i32, ptr %word.at, align 1
  %wide = zext i32 %word to i64
  %joined = xor i64 %inner, %wide
  %product = mul i64 %joined, -7046029254386353131
  %high = lshr i64 %product, 32
  %mixed = xor i64 %product, %high
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, {SAMPLES}
  br i1 %more, label %sample, label %weight.done
weight.done:
  %hash.out = phi i64 [ %mixed, %sample ]
  %w.next = add i64 %w, 1
  br label %weight
exit:
  ret i64 %hash
}}
"""


@cache
def _function() -> Any:
    signature = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
    return signature(load_text(TEXT, "lamina_fingerprint"))


class Fingerprint:
    """Looks at memory blocks, given as (address, bytes); blocks of fewer than four bytes are left out."""

    __slots__ = ("_call", "_count", "_table")

    def __init__(self, blocks: Sequence[tuple[int, int]]) -> None:
        entries = [(address, size // 4) for address, size in blocks if size >= 4 and address]
        flat = [number for entry in entries for number in entry]
        self._table = (ctypes.c_int64 * max(1, len(flat)))(*flat)
        self._count = len(entries)
        self._call = _function()

    def look(self) -> int:
        """A number that is the same as long as the words looked at are."""
        return int(self._call(ctypes.addressof(self._table), self._count))
