"""Tables: what may stand in a score, detection or golden table, and how the unscored are accounted for."""
