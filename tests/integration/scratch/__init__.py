"""A scratch host: this machine in separate namespaces, with an NVIDIA driver and toolkit that it does not have.

All files have their real paths (``/usr/lib/.../libnvidia-ml.so.1``, ``/dev/nvidia0``, ``/proc/driver/nvidia``), so the
whole GPU path runs unchanged. Only the silicon is missing: the libraries are kind/nvml and empty ones.
"""

from tests.integration.scratch.host import ScratchHost, scratch_host

__all__ = ["ScratchHost", "scratch_host"]
