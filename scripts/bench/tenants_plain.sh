#!/usr/bin/env bash
# What a person types to remove a tenant, or to bring its KAI back to the version before: what kailab is measured
# against (scripts/bench/tenant.py sets KUBECONFIG, KUBECTL and HELM).
#
#   tenants_plain.sh removal NAME
#   tenants_plain.sh rollback CHART VALUES
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
