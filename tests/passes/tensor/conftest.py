"""Small programs stand for large ones here: no weight is too small to pack."""

from __future__ import annotations

import pytest

from lamina.passes.tensor import pack_linear


@pytest.fixture(autouse=True)
def pack_small_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_linear, "FEWEST_WEIGHTS", 1)
