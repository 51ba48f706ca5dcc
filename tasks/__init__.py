"""Tasks: one I/O concern a file, each a thin shell over core."""
