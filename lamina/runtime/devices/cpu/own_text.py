"""LLVM text of the runtime's own native functions; `library` compiles it as one, once a process."""

from __future__ import annotations

PARALLEL = "lamina_parallel"
FINGERPRINT = "lamina_fingerprint"
IDENTITIES = "lamina_identities"
THREADED = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()
declare i64 @llvm.smin.i64(i64, i64)
%job = type { ptr, ptr, i64, i64, i64 }

define void @lamina_parallel(ptr %loop, ptr %frame, i64 %first, i64 %last, i64 %step, i64 %threads) {
  %many = icmp sgt i64 %threads, 1
  br i1 %many, label %share, label %alone
share:
  %job = alloca %job
  store ptr %loop, ptr %job
  %p1 = getelementptr %job, ptr %job, i32 0, i32 1
  store ptr %frame, ptr %p1
  %p2 = getelementptr %job, ptr %job, i32 0, i32 2
  store i64 %first, ptr %p2
  %p3 = getelementptr %job, ptr %job, i32 0, i32 3
  store i64 %last, ptr %p3
  %p4 = getelementptr %job, ptr %job, i32 0, i32 4
  store i64 %step, ptr %p4
  %count = trunc i64 %threads to i32
  call void @GOMP_parallel(ptr @lamina_share, ptr %job, i32 %count, i32 0)
  ret void
alone:
  call void %loop(ptr %frame, i64 %first, i64 %last)
  ret void
}

; Iterations [n * t / T, n * (t + 1) / T) of n, for thread t of T.
define internal void @lamina_share(ptr %job) {
  %loop = load ptr, ptr %job
  %p1 = getelementptr %job, ptr %job, i32 0, i32 1
  %frame = load ptr, ptr %p1
  %p2 = getelementptr %job, ptr %job, i32 0, i32 2
  %first = load i64, ptr %p2
  %p3 = getelementptr %job, ptr %job, i32 0, i32 3
  %last = load i64, ptr %p3
  %p4 = getelementptr %job, ptr %job, i32 0, i32 4
  %step = load i64, ptr %p4
  %length = sub i64 %last, %first
  %less = sub i64 %step, 1
  %rounded = add i64 %length, %less
  %n = sdiv i64 %rounded, %step
  %t32 = call i32 @omp_get_thread_num()
  %t = sext i32 %t32 to i64
  %T32 = call i32 @omp_get_num_threads()
  %T = sext i32 %T32 to i64
  %next = add i64 %t, 1
  %n_t = mul i64 %n, %t
  %begin = sdiv i64 %n_t, %T
  %n_next = mul i64 %n, %next
  %end = sdiv i64 %n_next, %T
  %begin_steps = mul i64 %begin, %step
  %end_steps = mul i64 %end, %step
  %a = add i64 %first, %begin_steps
  %b = add i64 %first, %end_steps
  %bounded = call i64 @llvm.smin.i64(i64 %b, i64 %last)
  call void %loop(ptr %frame, i64 %a, i64 %bounded)
  ret void
}
"""
"""What generated code calls for a parallel loop: see `codegen/llvm/parallel.py`."""
SERIAL = """
define void @lamina_parallel(ptr %loop, ptr %frame, i64 %first, i64 %last, i64 %step, i64 %threads) {
  call void %loop(ptr %frame, i64 %first, i64 %last)
  ret void
}
"""
"""The same on the calling thread alone."""
SAMPLES = 32
"""Words looked at in each weight, the first and spread evenly."""
FINGERPRINTS = f"""
define i64 @lamina_fingerprint(ptr %table, i64 %count) {{
entry:
  br label %weight
weight:
  %w = phi i64 [ 0, %entry ], [ %w.next, %weight.done ]
  %hash = phi i64 [ 1469598103934665603, %entry ], [ %hash.out, %weight.done ]
  %is.end = icmp uge i64 %w, %count
  br i1 %is.end, label %exit, label %begin
begin:
  %slot = shl i64 %w, 1
  %address.at = getelementptr i64, ptr %table, i64 %slot
  %slot.words = or i64 %slot, 1
  %words.at = getelementptr i64, ptr %table, i64 %slot.words
  %address = load ptr, ptr %address.at, align 8
  %words = load i64, ptr %words.at, align 8
  br label %sample
sample:
  %k = phi i64 [ 0, %begin ], [ %k.next, %sample ]
  %inner = phi i64 [ %hash, %begin ], [ %mixed, %sample ]
  %scaled = mul i64 %k, %words
  %index = udiv i64 %scaled, {SAMPLES}
  %word.at = getelementptr i32, ptr %address, i64 %index
  %word = load i32, ptr %word.at, align 1
  %wide = zext i32 %word to i64
  %joined = xor i64 %inner, %wide
  %product = mul i64 %joined, -7046029254386353131
  %high = lshr i64 %product, 32
  %mixed = xor i64 %product, %high
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, {SAMPLES}
  br i1 %more, label %sample, label %weight.done
weight.done:
  %hash.out = phi i64 [ %mixed, %sample ]
  %w.next = add i64 %w, 1
  br label %weight
exit:
  ret i64 %hash
}}
"""
"""`i64 f(ptr table, i64 count)`: see `fingerprint`."""
ROWS = """
define i64 @lamina_identities(ptr %table, i64 %count, ptr %release) {
entry:
  br label %row
row:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %is.end = icmp uge i64 %k, %count
  br i1 %is.end, label %hold, label %begin
begin:
  %at = getelementptr [5 x i64], ptr %table, i64 %k
  %getter.at = getelementptr i64, ptr %at, i64 0
  %getter = load ptr, ptr %getter.at
  %holder.at = getelementptr i64, ptr %at, i64 1
  %holder = load ptr, ptr %holder.at
  %key.at = getelementptr i64, ptr %at, i64 2
  %key = load i64, ptr %key.at
  %expected.at = getelementptr i64, ptr %at, i64 3
  %expected = load ptr, ptr %expected.at
  %mode.at = getelementptr i64, ptr %at, i64 4
  %mode = load i64, ptr %mode.at
  switch i64 %mode, label %call [ i64 2, label %load i64 3, label %version ]
load:
  %place = getelementptr i8, ptr %holder, i64 %key
  %loaded = load ptr, ptr %place
  br label %compare
call:
  %key.pointer = inttoptr i64 %key to ptr
  %got = call ptr %getter(ptr %holder, ptr %key.pointer)
  %is.owned = icmp eq i64 %mode, 1
  %is.some = icmp ne ptr %got, null
  %is.released = and i1 %is.owned, %is.some
  br i1 %is.released, label %drop, label %compare
drop:
  call void %release(ptr %got)
  br label %compare
compare:
  %found = phi ptr [ %loaded, %load ], [ %got, %call ], [ %got, %drop ]
  %is.same = icmp eq ptr %found, %expected
  br i1 %is.same, label %next, label %differ
version:
  %version.at = getelementptr i8, ptr %holder, i64 %key
  %version.found = load i32, ptr %version.at
  %version.expected = ptrtoint ptr %expected to i64
  %version.wide = zext i32 %version.found to i64
  %is.same.version = icmp eq i64 %version.wide, %version.expected
  br i1 %is.same.version, label %next, label %differ
next:
  %k.next = add i64 %k, 1
  br label %row
hold:
  ret i64 1
differ:
  ret i64 0
}
"""
"""`i64 f(ptr table, i64 count, ptr release)`: see `identities`."""
