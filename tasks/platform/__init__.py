"""The local stack: its environment file, its processes, whether they are ready, and `assay doctor`'s checks.

`infra/Procfile` says which processes there are. `assay up` and honcho both start what it says, with the same file of
variables; `python -m tasks.platform` holds the few steps that its lines need.
"""
