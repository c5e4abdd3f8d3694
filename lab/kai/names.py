"""Names that KAI and NVIDIA's components use in a cluster, the same in KAI 0.7.11 to 0.17.0.

Sources: KAI's pkg/common/constants/constants.go; k8s-device-plugin and GPU feature discovery. Differences between
KAI versions are in ``lines/*.toml``.
"""

from __future__ import annotations

KAI_SCHEDULER = "kai-scheduler"  # the schedulerName of KAI's default shard, and the namespace of its components

KAI_CHART = KAI_SCHEDULER

ENOUGH_COMPONENTS = 3
"""Components that identify KAI: other software also uses single names, such as admission or scheduler."""

RESERVATION_APP = "kai-resource-reservation"
"""Label ``app`` and namespace of reservation pods (chart value global.resourceReservation)."""

RESERVED_GPU_ANNOTATION = "run.ai/reserve_for_gpu_index"
"""On a reservation pod, which writes it: the UUID of its GPU, despite the name."""

GPU_GROUP_LABEL = "runai-gpu-group"
"""GPU group of a pod that shares one GPU; prefix of one label per group for a pod that shares several."""

QUEUE_LABEL = "kai.scheduler/queue"
SUBGROUP_LABEL = "kai.scheduler/subgroup-name"
POD_GROUP_ANNOTATION = "pod-group-name"
MIN_MEMBER_ANNOTATION = "kai.scheduler/batch-min-member"

FRACTION_ANNOTATION = "gpu-fraction"
MEMORY_ANNOTATION = "gpu-memory"
DEVICES_ANNOTATION = "gpu-fraction-num-devices"
RECEIVED_ANNOTATION = "received-resource-type"  # Regular or Fraction, written by the binder

CONFIGMAP_ANNOTATION = "runai/shared-gpu-configmap"  # prefix of the ConfigMap names of a fractional pod

GPU_RESOURCE = "nvidia.com/gpu"
MIG_PREFIX = "nvidia.com/mig-"

GPU_PRESENT_LABEL = "nvidia.com/gpu.present"
GPU_COUNT_LABEL = "nvidia.com/gpu.count"
GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"  # MiB of one GPU
GPU_PRODUCT_LABEL = "nvidia.com/gpu.product"
GPU_REPLICAS_LABEL = "nvidia.com/gpu.replicas"
"""``nvidia.com/gpu`` per GPU: the number of pods that share it by the device plugin's time-slicing."""
