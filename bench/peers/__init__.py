"""The list of peers that the workloads are run with, each in a file of its own."""

from __future__ import annotations

from bench.peers import eager, lamina, onnx_runtime, openvino, torch_compile
from bench.peers.peer import Peer

__all__ = ["BASELINE", "PEERS", "Peer"]

BASELINE = eager.PEER.name
_ALL = (eager.PEER, lamina.PEER, torch_compile.DEFAULT, torch_compile.TUNED, onnx_runtime.PEER, openvino.PEER)
PEERS = {peer.name: peer for peer in _ALL}
