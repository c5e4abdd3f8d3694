"""Everything of a cluster that scheduling depends on, read at one moment."""
