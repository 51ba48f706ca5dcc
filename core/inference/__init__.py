"""Intervals, corrected rates and the effective size of a sample."""
