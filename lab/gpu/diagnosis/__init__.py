"""Why a GPU does not reach pods: checks along its path from the host's driver to the pod."""
