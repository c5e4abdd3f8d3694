"""Reports on runs and failures."""
