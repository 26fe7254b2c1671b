"""torch's own compiler stays unloaded during capture and works afterwards."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
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


def test_compiler_of_torch_is_loaded_only_when_asked_for():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.strip() == "fine", done.stdout + done.stderr
