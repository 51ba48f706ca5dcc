"""Group fairness: gaps between groups with their evidence."""
