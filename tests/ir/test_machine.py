"""The target record: text round trip, damaged files are measured again, features follow the processor."""

from __future__ import annotations

import dataclasses
import json

import pytest

from lamina.errors import UserError
from lamina.ir import machine
from lamina.ir.machine import Target, host
from lamina.options import Options

TARGET = Target(
    name="test", isa="avx2", vector_bits=256, features=("fma",), cores=2, l1_bytes=1 << 15, l2_bytes=1 << 19,
    l3_bytes=1 << 24, copy_bandwidth=2e10, cache_bandwidth=1e11, peak_flops=1e11, launch_seconds=3e-6,
)  # fmt: skip


def test_text_round_trip():
    assert Target.from_text(TARGET.to_text()) == TARGET


@pytest.mark.parametrize("change", [{"cores": "two"}, {"copy_bandwidth": 0}, {"extra": 1}, {"features": [1]}])
def test_damaged_text_is_refused(change):
    with pytest.raises(UserError):
        Target.from_text(json.dumps(dataclasses.asdict(TARGET) | change))


def test_unknown_vector_instructions():
    with pytest.raises(UserError, match="avx1024"):
        TARGET.with_isa("avx1024")
    assert TARGET.with_isa("scalar").vector_bits == 0


def test_host_is_measured_once_and_a_damaged_file_again(tmp_path, monkeypatch):
    rounds = []
    figures = {"copy_bandwidth": 1e10, "cache_bandwidth": 1e11, "peak_flops": 1e11, "launch_seconds": 3e-6}
    monkeypatch.setattr(machine, "measure", lambda known: rounds.append(known) or figures)
    monkeypatch.setattr(machine, "_is_busy", lambda cores: False)
    options = Options(cache_dir=str(tmp_path))
    unsettled = machine.identity(options)
    machine._measured_host.cache_clear()
    first = host(options)
    assert machine.identity(options) != unsettled
    machine._measured_host.cache_clear()
    assert host(options) == first
    assert len(rounds) == 1
    (file,) = (tmp_path / "machines").iterdir()
    file.write_text("{half")
    machine._measured_host.cache_clear()
    assert host(options) == first
    assert len(rounds) == 2
    machine._measured_host.cache_clear()


def test_figures_of_a_busy_machine_are_not_kept(tmp_path, monkeypatch):
    figures = {"copy_bandwidth": 1e10, "cache_bandwidth": 1e11, "peak_flops": 1e11, "launch_seconds": 3e-6}
    monkeypatch.setattr(machine, "measure", lambda known: figures)
    monkeypatch.setattr(machine, "_is_busy", lambda cores: True)
    options = Options(cache_dir=str(tmp_path))
    unsettled = machine.identity(options)
    machine._measured_host.cache_clear()
    host(options)
    machine._measured_host.cache_clear()
    assert not (tmp_path / "machines").exists() and machine.identity(options) == unsettled


def test_measuring_gives_plausible_figures_quickly():
    known = machine._known_figures()
    figures = machine.measure(known)
    assert 1e8 < figures["copy_bandwidth"] < 1e13
    assert 1e8 < figures["peak_flops"] < 1e14
    assert 1e-8 < figures["launch_seconds"] < 1e-2
