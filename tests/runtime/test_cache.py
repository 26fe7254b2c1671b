"""The disk cache keeps entries, and treats whatever is wrong with one as missing, with one warning."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from lamina.runtime.cache import MAGIC, Cache, entries, key_of


def test_an_entry_comes_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    key = key_of("text", b"options")
    assert cache.get("kernel", key) is None
    cache.put("kernel", key, b"code")
    assert Cache(tmp_path).get("kernel", key) == b"code"
    assert entries(tmp_path) == [("kernel", 1, len(MAGIC) + 32 + 4)]


def test_keys_tell_parts_apart() -> None:
    assert len({key_of("ab", "c"), key_of("a", "bc"), key_of("abc"), key_of("abc", "")}) == 4


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:10],
        lambda data: b"",
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: b"#!/bin/sh\n" + data,
    ],
)
def test_a_damaged_entry_is_missing_with_one_warning(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    cache = Cache(tmp_path)
    for key in (key_of("a"), key_of("b")):
        cache.put("kernel", key, b"machine code")
        path = cache._path("kernel", key)
        path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match="rebuilt") as told:
        assert cache.get("kernel", key_of("a")) is None
        assert cache.get("kernel", key_of("b")) is None
    assert len(told) == 1
    cache.put("kernel", key_of("a"), b"machine code")
    assert cache.get("kernel", key_of("a")) == b"machine code"


def test_no_folder_keeps_nothing() -> None:
    cache = Cache(None)
    cache.put("kernel", key_of("a"), b"code")
    assert cache.get("kernel", key_of("a")) is None


def test_an_unwritable_folder_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    cache = Cache(tmp_path / "file")
    with pytest.warns(UserWarning, match="cannot keep"):
        cache.put("kernel", key_of("a"), b"code")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("kernel", key_of("a"), b"code")
    assert cache.get("kernel", key_of("a")) is None
