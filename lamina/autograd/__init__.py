"""From torch-level graphs to tensor-level IR: trace, make functional, import."""

from __future__ import annotations
