"""Names that KAI and NVIDIA's components write into a cluster, the same in KAI 0.7.11 to 0.17.0.

Sources: KAI's pkg/common/constants/constants.go; k8s-device-plugin and GPU feature discovery. What differs between
KAI versions is in ``lines/*.toml``.
"""

from __future__ import annotations

KAI_SCHEDULER = "kai-scheduler"
"""The schedulerName of KAI's default shard, and the namespace of its components."""

KAI_CHART = KAI_SCHEDULER

RESERVATION_APP = "kai-resource-reservation"
"""Label ``app`` of reservation pods, and the namespace they are in (chart value global.resourceReservation)."""

RESERVED_GPU_ANNOTATION = "run.ai/reserve_for_gpu_index"
"""On a reservation pod, written by itself: the UUID of its GPU, despite the name."""

GPU_GROUP_LABEL = "runai-gpu-group"
"""On a pod that shares one GPU: its GPU group. On one that shares several, the prefix of a label for each."""

QUEUE_LABEL = "kai.scheduler/queue"
SUBGROUP_LABEL = "kai.scheduler/subgroup-name"
POD_GROUP_ANNOTATION = "pod-group-name"
MIN_MEMBER_ANNOTATION = "kai.scheduler/batch-min-member"

FRACTION_ANNOTATION = "gpu-fraction"
MEMORY_ANNOTATION = "gpu-memory"
DEVICES_ANNOTATION = "gpu-fraction-num-devices"
CONTAINER_ANNOTATION = "gpu-fraction-container-name"
"""The container that gets the fraction; the first one when it names none (KAI 0.10 and newer)."""

RECEIVED_ANNOTATION = "received-resource-type"
"""Regular or Fraction; the binder writes it."""
CONFIGMAP_ANNOTATION = "runai/shared-gpu-configmap"
"""On a pod with a fraction: the prefix of the names of its ConfigMaps."""

GPU_RESOURCE = "nvidia.com/gpu"
MIG_PREFIX = "nvidia.com/mig-"

GPU_PRESENT_LABEL = "nvidia.com/gpu.present"
GPU_COUNT_LABEL = "nvidia.com/gpu.count"
GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"
"""MiB of one GPU."""
GPU_PRODUCT_LABEL = "nvidia.com/gpu.product"
GPU_REPLICAS_LABEL = "nvidia.com/gpu.replicas"
"""How many pods the device plugin gives one GPU to (time-slicing): so many ``nvidia.com/gpu`` for each."""
