"""Gates: a policy held against records."""
