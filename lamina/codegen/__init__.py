"""Last level -> source and machine code: `llvm` for processors."""
