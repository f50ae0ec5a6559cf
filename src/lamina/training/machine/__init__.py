"""The machine that trains: memory allocator, bf16 instructions, and an examination of all of it."""
