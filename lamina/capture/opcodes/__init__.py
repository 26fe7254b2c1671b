"""What every bytecode does, one file a family; `opcodes.table` lists them all."""
