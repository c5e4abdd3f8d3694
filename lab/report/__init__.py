"""HTML pages about labs, test runs and comparisons; artifacts of failures."""
