"""Data that assay brings along: a functional suite and the conversations of two imaginary releases."""
