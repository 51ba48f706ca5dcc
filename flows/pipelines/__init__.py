"""Pipelines: each composed once from plain steps; the command line and the Prefect flows run the same composition."""
