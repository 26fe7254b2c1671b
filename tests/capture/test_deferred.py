"""torch's own compiler stays unloaded during capture and works afterwards."""

from __future__ import annotations

import subprocess
import sys

import pytest

STATIC = """
import sys, torch
from torch import nn
from lamina.capture import trace
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Linear(4, 2)).eval()
x = torch.randn(1, 3, 3, 3)
with torch.no_grad():
    captured = trace(net, (x,), {})
    assert torch.equal(captured.call((x,), {}), net(x))
assert "torch._dynamo.symbolic_convert" not in sys.modules
compiled = torch.compile(lambda v: (v * 2).relu(), backend="eager", fullgraph=True)
assert torch.equal(compiled(x), (x * 2).relu())
import torch._dynamo
from torch._dynamo import utils
assert utils.counters["stats"]["unique_graphs"] == 1
with torch.no_grad():
    assert torch.equal(trace(net, (x,), {}).call((x,), {}), net(x))
print("fine")
"""

DYNAMIC = """
import sys, torch
from lamina.capture import trace
from lamina.capture.dynamic import SizeHistory, remembering
def halves(x):
    half = x.shape[0] // 2 if x.shape[0] % 2 == 0 else 1
    return torch.cat([x[:half] * half, x[half:].relu() + 1])
x = torch.randn(8)
with remembering(SizeHistory(True)):
    captured = trace(halves, (x,), {}, fullgraph=True)
for n in (8, 12, 30):
    x = torch.randn(n)
    assert captured.check((x,), {}), captured.explain_failure((x,), {})
    assert torch.equal(captured.call((x,), {}), halves(x))
assert "torch._dynamo.symbolic_convert" not in sys.modules
from torch.fx.experimental.validator import ValidationException, translation_validation_enabled
assert issubclass(ValidationException, Exception) and not translation_validation_enabled()
compiled = torch.compile(halves, backend="eager", dynamic=True, fullgraph=True)
assert torch.equal(compiled(x), halves(x))
assert torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
with remembering(SizeHistory(True)):
    assert torch.equal(trace(halves, (x,), {}).call((x,), {}), halves(x))
print("fine")
"""


@pytest.mark.parametrize("script", [STATIC, DYNAMIC], ids=["static", "dynamic"])
def test_compiler_of_torch_is_loaded_only_when_asked_for(script):
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.strip() == "fine", done.stdout + done.stderr
