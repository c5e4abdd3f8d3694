"""A scratch host: this machine in namespaces of its own, with an NVIDIA driver and toolkit that it does not have.

Everything is at its true place (``/usr/lib/.../libnvidia-ml.so.1``, ``/dev/nvidia0``, ``/proc/driver/nvidia``), so the
whole way of real GPUs runs unchanged. Only the silicon is missing: the libraries are kind/nvml and empty ones.
"""

from tests.integration.scratch.host import ScratchHost, scratch_host

__all__ = ["ScratchHost", "scratch_host"]
