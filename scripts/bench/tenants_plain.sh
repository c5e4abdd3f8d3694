#!/usr/bin/env bash
# What a person types to take a tenant away, or to bring its KAI back to the version before: what 'lab' is measured
# against (scripts/bench_tenants.py sets KUBECONFIG, KUBECTL and HELM).
#
#   bench_tenants_plain.sh removal NAME
#   bench_tenants_plain.sh rollback CHART VALUES
set -euo pipefail
case $1 in
    removal)
        "$HELM" uninstall "$2" -n "vcluster-$2"
        "$KUBECTL" delete namespace "vcluster-$2"
        ;;
    rollback)
        "$HELM" uninstall kai-scheduler -n kai-scheduler
        "$HELM" install kai-scheduler "$2" -n kai-scheduler --values "$3" --wait --timeout 600s
        ;;
    *)
        echo "removal or rollback, not $1" >&2
        exit 2
        ;;
esac
