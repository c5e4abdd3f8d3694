"""One vCluster: its chart's values and their validation, its images, and access to it."""
