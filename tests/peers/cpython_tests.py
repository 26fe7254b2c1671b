"""Judge 1: CPython's own tests, each method natively and then through the machine; the counts are checked in.

python -m tests.peers.cpython_tests [--mode plain|traced] [--python PATH] [--modules a,b] [--write] [--show]

same: the machine did what CPython did. stopped: it said why it does not run this (allowed). different, leaked
(something outside changed although tracing stopped), spurious (an exception that CPython does not raise): none.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
COUNTS = HERE / "cpython_counts.json"
WRONG = ("different", "leaked", "spurious", "crashed")
MODULE_SECONDS = 300

MODULES = [
    "test_abc",
    "test_abstract_numbers",
    "test_array",
    "test_asyncgen",
    "test_augassign",
    "test_baseexception",
    "test_binop",
    "test_bisect",
    "test_bool",
    "test_builtin",
    "test_bytes",
    "test_call",
    "test_class",
    "test_collections",
    "test_colorsys",
    "test_compare",
    "test_complex",
    "test_contains",
    "test_contextlib",
    "test_contextlib_async",
    "test_copy",
    "test_coroutines",
    "test_dataclasses",
    "test_decorators",
    "test_defaultdict",
    "test_deque",
    "test_descr",
    "test_dict",
    "test_dictcomps",
    "test_dictviews",
    "test_dynamic",
    "test_dynamicclassattribute",
    "test_enum",
    "test_enumerate",
    "test_except_star",
    "test_exception_group",
    "test_exception_hierarchy",
    "test_exception_variations",
    "test_exceptions",
    "test_extcall",
    "test_float",
    "test_fnmatch",
    "test_format",
    "test_fractions",
    "test_fstring",
    "test_funcattrs",
    "test_functools",
    "test_generator_stop",
    "test_generators",
    "test_genericalias",
    "test_genericclass",
    "test_genexps",
    "test_global",
    "test_grammar",
    "test_graphlib",
    "test_hash",
    "test_heapq",
    "test_index",
    "test_int",
    "test_isinstance",
    "test_iter",
    "test_iterlen",
    "test_itertools",
    "test_json",
    "test_keyword",
    "test_keywordonlyarg",
    "test_list",
    "test_listcomps",
    "test_long",
    "test_math",
    "test_metaclass",
    "test_named_expressions",
    "test_numeric_tower",
    "test_opcache",
    "test_operator",
    "test_ordered_dict",
    "test_patma",
    "test_positional_only_arg",
    "test_pow",
    "test_pprint",
    "test_print",
    "test_property",
    "test_queue",
    "test_raise",
    "test_random",
    "test_range",
    "test_reprlib",
    "test_richcmp",
    "test_scope",
    "test_set",
    "test_setcomps",
    "test_shlex",
    "test_slice",
    "test_sort",
    "test_statistics",
    "test_string",
    "test_string_literals",
    "test_struct",
    "test_structseq",
    "test_subclassinit",
    "test_super",
    "test_textwrap",
    "test_tuple",
    "test_type_annotations",
    "test_typechecks",
    "test_types",
    "test_typing",
    "test_unary",
    "test_unicode",
    "test_unpack",
    "test_unpack_ex",
    "test_userdict",
    "test_userlist",
    "test_userstring",
    "test_weakref",
    "test_weakset",
    "test_with",
    "test_yield_from",
]

SHORT = {
    "plain": ("test_scope", "test_with", "test_raise", "test_unpack_ex", "test_dictcomps"),
    "traced": ("test_scope",),
}
"""What continuous integration runs."""
SET_ASIDE = {
    "test_descr.ClassPropertiesAndMethods.test_restored_object_new": "an expected failure: CPython is wrong",
    "test_exception_group.DeepRecursionInSplitAndSubgroup.test_deep_split": "needs the usual recursion limit",
    "test_exception_group.DeepRecursionInSplitAndSubgroup.test_deep_subgroup": "needs the usual recursion limit",
    "test_exceptions.ExceptionTests.test_memory_error_cleanup": "asks when an object dies",
    "test_iter.TestCase.test_reduce_mutating_builtins_iter": "takes iter from under the machine too",
    "test_itertools.TestBasicOps.test_islice": "asks when an object dies",
    "test_generators.FinalizationTest.test_frame_resurrect": "asks when an object dies",
    "test_weakref.ReferencesTestCase.test_callback_in_cycle_resurrection": "asks when an object dies",
    "test_genexps.__test__.doctests": "asks for the identity of dead tuples",
    "test_functools.TestLRUPy.test_lru_reentrancy_with_len": "replaces len under the machine too",
    "test_dynamic.RebindBuiltinsTests.test_modify_builtins": "replaces len under the machine too",
    "test_dynamic.RebindBuiltinsTests.test_modify_builtins_from_leaf_function": "replaces len under the machine too",
    "test_dynamic.RebindBuiltinsTests.test_modify_builtins_while_generator_active": "replaces len under the machine too",
    "test_dynamic.TestTracing.test_after_specialization": "traces lines from a finalizer",
    "test_generators.SignalAndYieldFromTest.test_raise_and_yield_from": "a signal in the middle of C code",
    "test_coroutines.CoroutineTest.test_fatal_coro_warning": "asks for the object of an error in a finalizer",
    "test_coroutines.OriginTrackingTest.test_unawaited_warning_when_module_broken": "breaks warnings for the machine too",
    "test_userlist.UserListTest.test_free_after_iterating": "asks when an object dies",
    "test_ordered_dict.PurePythonOrderedDictTests.test_free_after_iterating": "asks when an object dies",
    "test_ordered_dict.PurePythonOrderedDictSubclassTests.test_free_after_iterating": "asks when an object dies",
}
"""Tests that are not about what a program means, by name behind `test.`, with the reason."""


def run_worker(python, module, mode, start, out_path):
    """One worker from test number `start` on; gives its exit status."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    limit = resource.getrlimit(resource.RLIMIT_STACK)[1]
    command = [python, str(HERE / "cpython_worker.py"), module, mode, "--start", str(start)]
    with out_path.open("ab") as out, tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                command,
                stdout=out,
                stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=folder,
                timeout=MODULE_SECONDS,
                check=False,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (limit, limit)),
            )
        except subprocess.TimeoutExpired:
            return "timeout"
    return done.stderr.decode(errors="replace")[-500:] if done.returncode else ""


def judge_module(python, module, mode):
    """[(test, outcome, code, detail)] of a module; a worker that dies is started again behind the fatal test."""
    results = {}
    start = 0
    with tempfile.TemporaryDirectory() as folder:
        out_path = pathlib.Path(folder) / "out"
        while True:
            failure = run_worker(python, module, mode, start, out_path)
            entries = [json.loads(line) for line in out_path.read_text().splitlines() if line.startswith("{")]
            for entry in entries:
                if entry.get("test", "").removeprefix("test.") in SET_ASIDE:
                    results[entry["test"]] = ("set aside", "", "")
                elif entry.get("outcome", "started") != "started":
                    results[entry["test"]] = (entry["outcome"], entry["code"], entry["detail"])
            begun = [entry for entry in entries if entry.get("outcome") == "started"]
            if any(entry.get("finished") for entry in entries):
                return results
            if not begun or begun[-1]["index"] < start:
                return results or {module: ("unloadable", "", failure)}
            if begun[-1]["test"] not in results:
                results[begun[-1]["test"]] = ("crashed", "", failure)
            start = begun[-1]["index"] + 1


def judge_all(python, mode, modules, show):
    """{module: {outcome: count}} and {code: count}; prints what is wrong."""
    counts, codes = {}, collections.Counter()
    for module in modules:
        results = judge_module(python, module, mode)
        counts[module] = dict(
            sorted(collections.Counter(outcome for outcome, *_ in results.values()).items())
        )
        for test, (outcome, code, detail) in results.items():
            if outcome == "stopped":
                codes[code] += 1
            if outcome in WRONG or outcome == "unloadable" or show:
                print(f"{outcome:10} {test}: {code} {detail[:400]}", flush=True)
        print(f"-- {module}: {counts[module]}", flush=True)
    return counts, codes


def total_of(counts):
    total = collections.Counter()
    for outcomes in counts.values():
        total.update(outcomes)
    return total


def lost(counts, recorded):
    """What became worse than the recorded counts: (module, outcome, count, recorded count)."""
    found = []
    for module, outcomes in counts.items():
        before = recorded.get(module, {})
        if outcomes.get("same", 0) < before.get("same", 0):
            found.append((module, "same", outcomes.get("same", 0), before["same"]))
        found += [(module, kind, outcomes[kind], 0) for kind in WRONG if outcomes.get(kind)]
    return found


def read_counts(version, mode):
    """The recorded counts of a Python version and a mode."""
    return json.loads(COUNTS.read_text())[f"{version} {mode}"]


def version_of(python):
    text = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", text], capture_output=True, text=True, check=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=["plain", "traced"], default="plain")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--modules", default="")
    parser.add_argument("--write", action="store_true", help="write the counts of these modules")
    parser.add_argument("--show", action="store_true", help="print every test's outcome")
    options = parser.parse_args()
    modules = options.modules.split(",") if options.modules else MODULES
    counts, codes = judge_all(options.python, options.mode, modules, options.show)
    total = total_of(counts)
    print(f"{dict(total)}\nstops: {dict(codes.most_common())}")
    if options.write:
        recorded = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
        recorded.setdefault(f"{version_of(options.python)} {options.mode}", {}).update(counts)
        COUNTS.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    return any(total[outcome] for outcome in WRONG)


if __name__ == "__main__":
    sys.exit(main())
