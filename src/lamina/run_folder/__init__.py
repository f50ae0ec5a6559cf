"""The run folder: every file in it, by name, with its reader and its writer."""
