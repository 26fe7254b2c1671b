"""PyTorch as it is: what every ratio is over."""

from __future__ import annotations

from bench.peers.peer import Peer, call_with

PEER = Peer("eager", "torch", lambda example: call_with(example.function, example))
