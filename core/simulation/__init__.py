"""Known truth: what the instrument does when the answer is known (SPEC 14)."""
