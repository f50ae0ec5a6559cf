"""The run folder: the name of every file in it, with reader, writer, lock and seal."""
