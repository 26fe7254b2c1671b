"""Floats as text that reads back to the same bits: shortest decimal, or bits in hexadecimal."""

from __future__ import annotations

import math
import struct

import numpy as np

from lamina.ir.attributes import bf16_to_f32
from lamina.ir.types import ScalarType

FORMATS = {"f64": ("<d", "<Q", 16), "f32": ("<f", "<I", 8), "f16": ("<e", "<H", 4)}
"""Float format, integer format, hexadecimal digits."""


def float_to_text(value: float, type_: ScalarType) -> str:
    """`1.5`, `1.0e-05`, or bits such as `0x7FC00000` for nan and infinities."""
    if not math.isfinite(value):
        return float_bits(value, type_)
    short = repr(value)
    if type_.name in ("f32", "f16"):
        narrow = str(np.float32(value) if type_.name == "f32" else np.float16(value))
        # The shortest decimal of the narrow type can read back differently only by rounding twice.
        if struct.pack(FORMATS[type_.name][0], float(narrow)) == struct.pack(FORMATS[type_.name][0], value):
            short = narrow
    mantissa, _, exponent = short.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}e{exponent}" if exponent else mantissa


def float_bits(value: float, type_: ScalarType) -> str:
    if type_.name == "bf16":
        bits = struct.unpack("<I", struct.pack("<f", value))[0] >> 16
        return f"0x{bits:04X}"
    if type_.name not in FORMATS:
        raise ValueError(f"{value} of type {type_} cannot be written")
    pack, unpack, digits = FORMATS[type_.name]
    return f"0x{struct.unpack(unpack, struct.pack(pack, value))[0]:0{digits}X}"


def float_from_bits(bits: int, type_: ScalarType) -> float:
    if type_.name == "bf16":
        return float(bf16_to_f32(np.array([bits], np.uint16))[0])
    if type_.name not in FORMATS:
        raise ValueError(f"bits of {type_} cannot be read")
    pack, unpack, _ = FORMATS[type_.name]
    value: float = struct.unpack(pack, struct.pack(unpack, bits))[0]
    return value
