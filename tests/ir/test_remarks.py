"""Remarks: kinds, queries, JSON."""

from __future__ import annotations

import json

import pytest

from lamina.ir.core import Location
from lamina.ir.remarks import Remarks


def test_query_count_and_json():
    remarks = Remarks()
    remarks.add("fuse", Location("m.py", 3), "merged exp", "applied", saved=40)
    remarks.add("fuse", None, "would make a cycle", "refused", saved=8)
    assert [remark.data["saved"] for remark in remarks.query("fuse", "refused")] == [8]
    assert len(remarks.query(text="cycle")) == 1
    assert remarks.query(saved=40)[0].location.line == 3
    assert remarks.count() == {("fuse", "applied"): 1, ("fuse", "refused"): 1}
    assert json.loads(remarks.to_json())[0]["file"] == "m.py"
    assert str(remarks.query(kind="applied")[0]) == "m.py:3: fuse applied: merged exp"


def test_unknown_kind():
    with pytest.raises(ValueError, match="applied, refused, note"):
        Remarks().add("fuse", None, "x", "perhaps")  # type: ignore[arg-type]
