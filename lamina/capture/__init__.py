"""Capture: Python bytecode to a torch-level graph with guards, without a frame hook."""

from __future__ import annotations

from lamina.capture.captured import Captured
from lamina.capture.frontend import trace

__all__ = ["Captured", "trace"]
