"""The faults, and the tests that each of them must turn red.

``reds`` maps a suite to the tests that must fail, as an expression for pytest's ``-k``; "" selects the whole suite.
"""

from __future__ import annotations

from lab.steps.kai.step import NAMESPACE
from scripts.fault_injection.seeding import (
    Fault,
    Seed,
    device_plugin_stopped,
    node_labels_removed,
    patched,
    removed,
    syncers_stopped,
    tampering,
    uncordon_all,
)
from scripts.fault_injection.tampering import (
    bound_over,
    cordon_spread,
    evicted,
    minimum_set,
    over_packed,
    packed_again,
    priority_evened,
    queue_recreated,
    racks_unlabelled,
    reservation_removed,
    share_set,
    usage_history_off,
)
from scripts.fault_injection.tenant_faults import TENANT_FAULTS
from tests.e2e.kai_components import stopped
from tests.e2e.shards import shard_changed

CONFIG = "Config.kai.scheduler"
SHARDS = ">=0.12"
"""KAI versions whose SchedulingShard can switch actions and plugins off."""


def without_action(action: str) -> Seed:
    """Switch off one action of KAI's scheduler."""
    return lambda lab: shard_changed(lab, {"actions": {action: {"enabled": False}}})


WITHOUT_FAULT = {"test_no_kai.py": "needs a lab without KAI; faults are injected into a lab with KAI"}
"""Suites without a fault, and why."""

FAULTS = (
    Fault(
        "scheduler-stopped",
        "KAI's scheduler and operator are scaled to 0",
        lambda lab: stopped(lab, "scheduler"),
        {"test_kai_pods.py": "cpu and host", "test_coexistence.py": "goes_round", "test_disorder.py": "killed"},
    ),
    Fault(
        "podgrouper-stopped",
        "KAI's pod-grouper and operator are scaled to 0",
        lambda lab: stopped(lab, "podgrouper"),
        {
            "test_kai_pods.py": "whole and host",
            "test_queues.py": "unknown",
            "test_preemption.py": "higher_priority and host",
            "test_gangs.py": "job_with_a_minimum",
        },
    ),
    Fault(
        "binder-stopped",
        "KAI's binder and operator are scaled to 0",
        lambda lab: stopped(lab, "binder"),
        {"test_disorder.py": "without_their_reservation"},
    ),
    Fault(
        "queue-controller-stopped",
        "KAI's queue controller and operator are scaled to 0",
        lambda lab: stopped(lab, "queuecontroller"),
        {"test_queue_trees.py": "quota_comes"},
    ),
    Fault(
        "gpu-sharing-off",
        "admission.gpuSharing of KAI's Config is false",
        lambda lab: patched(
            lab, CONFIG, "kai-config", {"spec": {"admission": {"gpuSharing": False}}}, rolls=(NAMESPACE, "admission")
        ),
        {
            "test_kai_pods.py": "fractions and host",
            "test_reservation_pods.py": "one_reservation_pod",
            "test_coexistence.py": "shared_gpu",
            "test_inference.py": "two_servers",
            "test_probe.py": "part_of_a_gpu",
            "test_storm.py": "twice_as_many",
        },
        SHARDS,
    ),
    Fault(
        "reclaim-off",
        "the shard's action reclaim is switched off",
        without_action("reclaim"),
        {
            "test_reclaim.py": "borrowed and host",
            "test_elastic.py": "gives_back",
            "test_can_run.py": "after_evictions",
            "test_explained_questions.py": "",
        },
        SHARDS,
    ),
    Fault(
        "preempt-off",
        "the shard's action preempt is switched off",
        without_action("preempt"),
        {"test_preemption.py": "higher_priority and host"},
        SHARDS,
    ),
    Fault(
        "consolidation-off",
        "the shard's action consolidation is switched off",
        without_action("consolidation"),
        {"test_consolidation.py": ""},
        SHARDS,
    ),
    Fault(
        "spread",
        "the shard's placementStrategy is spread",
        lambda lab: shard_changed(lab, {"placementStrategy": {"gpu": "spread", "cpu": "spread"}}),
        {"test_placement.py": "packed", "test_consolidation.py": ""},
        SHARDS,
    ),
    Fault(
        "topology-off",
        "the shard's plugin topology is switched off",
        lambda lab: shard_changed(lab, {"plugins": {"topology": {"enabled": False}}}),
        {"test_topology.py": ""},
        SHARDS,
    ),
    Fault(
        "gpu-labels-removed",
        "the labels nvidia.com/gpu.memory and nvidia.com/gpu.product are removed from the nodes",
        lambda lab: node_labels_removed(lab, "nvidia.com/gpu.memory", "nvidia.com/gpu.product"),
        {
            "test_kai_pods.py": "gpu_memory and host",
            "test_lab_is_real.py": "allocatable",
            "test_gpu_models.py": "labels",
        },
    ),
    Fault(
        "runtime-class-removed",
        "the RuntimeClass nvidia is deleted",
        lambda lab: removed(lab, "RuntimeClass", "nvidia"),
        {"test_lab_is_real.py": "runtime_class"},
    ),
    Fault(
        "device-plugin-stopped",
        "the device plugin's DaemonSet selects no node",
        device_plugin_stopped,
        {"test_gpu_health.py": "", "test_lab_is_real.py": "exactly_that_one"},
    ),
    Fault(
        "lab-queue-changed",
        "the limit of the lab file's first leaf queue is 1 GPU",
        lambda lab: patched(lab, "Queue", lab.spec.leaf_queues[0], {"spec": {"resources": {"gpu": {"limit": 1}}}}),
        {"test_queues.py": "as_in_the_lab_file"},
    ),
    Fault(
        "syncers-stopped",
        "the tenants' vClusters are scaled to 0",
        syncers_stopped,
        {"test_tenants.py": "seen_in_the_tenant", "test_compare.py": "whole_gpus"},
    ),
    Fault(
        "limits-lifted",
        "queues of tests lose their limits as soon as they exist",
        lambda lab: tampering(lab, "Queue", share_set("limit", -1)),
        {
            "test_queue_trees.py": "limit_of_a_queue or limit_is_never_passed and host",
            "test_gangs.py": "job_with_a_minimum",
            "test_elastic.py": "grows",
        },
    ),
    Fault(
        "quotas-taken",
        "queues of tests lose their quotas as soon as they exist",
        lambda lab: tampering(lab, "Queue", share_set("quota", 0)),
        {"test_queue_trees.py": "quota_comes", "test_reclaim.py": "borrowed and host"},
    ),
    Fault(
        "weights-evened",
        "queues of tests get the over-quota weight 1 as soon as they exist",
        lambda lab: tampering(lab, "Queue", share_set("overQuotaWeight", 1)),
        {"test_queue_trees.py": "by_weight"},
    ),
    Fault(
        "priorities-evened",
        "queues of tests get the priority 100 as soon as they exist",
        lambda lab: tampering(lab, "Queue", priority_evened),
        {"test_queue_trees.py": "higher_priority"},
    ),
    Fault(
        "queue-recreated",
        "a deleted queue of a test is recreated at once",
        lambda lab: tampering(lab, "Queue", queue_recreated),
        {"test_disorder.py": "queue_deleted"},
    ),
    Fault(
        "gangs-loosened",
        "gangs of tests get minMember 1 as soon as they exist",
        lambda lab: tampering(lab, "PodGroup", minimum_set(1)),
        {"test_gangs.py": "of_two_gangs", "test_topology.py": "no_rack"},
    ),
    Fault(
        "gangs-tightened",
        "gangs of tests get minMember 9 as soon as they exist",
        lambda lab: tampering(lab, "PodGroup", minimum_set(9)),
        {"test_elastic.py": "grows", "test_gangs.py": "waits_for_its_members"},
    ),
    Fault(
        "bound-over",
        "another scheduler binds every pod of a test at once, to the GPU nodes in turn",
        lambda lab: tampering(lab, "Pod", bound_over()),
        {
            "test_gangs.py": "of_two_gangs",
            "test_placement.py": "packed",
            "test_topology.py": "within_one_rack",
            "test_queue_trees.py": "limit_is_never_passed and host",
            "test_coexistence.py": "goes_round",
        },
    ),
    Fault(
        "over-packed",
        "KAI's binder is asked to put all fractions of a test on one GPU",
        lambda lab: tampering(lab, "Pod", over_packed()),
        {"test_storm.py": "twice_as_many"},
    ),
    Fault(
        "evicted",
        "GPU pods that KAI placed for tests are deleted as soon as they are ready",
        lambda lab: tampering(lab, "Pod", evicted),
        {
            "test_reclaim.py": "within_quota",
            "test_preemption.py": "non_preemptible",
            "test_coexistence.py": "bound_over_kai",
        },
    ),
    Fault(
        "reservations-removed",
        "reservation pods are deleted as soon as they hold their GPU",
        lambda lab: tampering(lab, "Pod", reservation_removed),
        {"test_reservation_pods.py": "last_user"},
    ),
    Fault(
        "racks-unlabelled",
        "labels of zones and racks are removed from the nodes as soon as they exist",
        lambda lab: tampering(lab, "Node", racks_unlabelled),
        {"test_topology.py": "no_rack"},
    ),
    Fault(
        "nodes-cordoned",
        "when one node is cordoned, all are",
        lambda lab: tampering(lab, "Node", cordon_spread, after=uncordon_all),
        {"test_disorder.py": "drained"},
    ),
    Fault(
        "usage-history-off",
        "the shard's kValue goes back to 0 whenever it is set",
        lambda lab: tampering(lab, "SchedulingShard", usage_history_off),
        {"test_time_based_share.py": ""},
        SHARDS,
    ),
    Fault(
        "packed-again",
        "the shard's placementStrategy goes back to binpack whenever it is spread",
        lambda lab: tampering(lab, "SchedulingShard", packed_again),
        {"test_placement.py": "spread"},
        SHARDS,
    ),
    *TENANT_FAULTS,
)
