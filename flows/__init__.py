"""Flows: composition only, and the command line."""
