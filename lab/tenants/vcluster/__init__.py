"""One vCluster: its chart's values, the step that installs it, and access to it."""
