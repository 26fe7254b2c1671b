"""Loop level -> `llvm` dialect -> LLVM text -> object code, in-process, without a C compiler.

`build.build` is the whole way; `to_llvm`, `emit` and `compile` are its steps.
"""
