#!/usr/bin/env bash
# A lab by hand, one command after the other: what 'kailab up' is measured against (scripts/bench/sides.py writes DIR).
#
#   plain_lab.sh DIR        DRY_RUN=1 prints the commands instead
#
# DIR/settings: NAME ENGINE KIND KUBECTL HELM IMAGE OWN_NODE NODES GPU_INSTALL GPU_DISCOVERY KAI_CHART KAI_DEPLOYMENTS
#               VCLUSTER_CHART
# DIR/images: one image archive per line          DIR/tenants: name and host port per line
# DIR/gpu-nodes: name, GPUs and labels per line   DIR/gpu-NODE.tar: the files of a node with simulated GPUs
# DIR/kind.yaml, storage.yaml, conflist.json, gpu.json, kai.json, queues.json, tenant-NAME.json: configuration and Helm
# values
set -euo pipefail
dir=$1
# shellcheck source=/dev/null
. "$dir/settings"
export KUBECONFIG="$dir/kubeconfig" KIND_EXPERIMENTAL_PROVIDER="$ENGINE"

say() { printf '+' && printf ' %q' "$@" && printf '\n'; }
run() { say "$@"; [ -n "${DRY_RUN:-}" ] || "$@"; }

# retry SECONDS COMMAND...: kubectl refuses to wait for what does not exist yet
retry() {
    local limit=$1 end=$((SECONDS + $1))
    shift
    say "$@"
    [ -z "${DRY_RUN:-}" ] || return 0
    until "$@" 2>"$dir/last-error"; do
        if [ "$SECONDS" -ge "$end" ]; then
            echo "not within $limit s: $*" >&2
            cat "$dir/last-error" >&2
            return 1
        fi
        sleep 0.5
    done
}

cidr_of() {
    if [ -n "${DRY_RUN:-}" ]; then echo "POD_CIDR_OF_$1"; else
        "$KUBECTL" get node "$1" -o 'jsonpath={.spec.podCIDR}'
    fi
}

address_of() {
    if [ -n "${DRY_RUN:-}" ]; then echo "ADDRESS_OF_$1"; else
        "$ENGINE" inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$1"
    fi
}

pod_network() {
    local -A cidr=() address=()
    local node other rule
    for node in $NODES; do
        cidr[$node]=$(cidr_of "$node")
        address[$node]=$(address_of "$node")
    done
    for node in $NODES; do
        for other in $NODES; do
            [ "$other" = "$node" ] || run "$ENGINE" exec "$node" ip route replace "${cidr[$other]}" via "${address[$other]}"
        done
        read -ra rule <<<"POSTROUTING -s ${cidr[$node]} ! -d 10.244.0.0/16 -j MASQUERADE"
        run "$ENGINE" exec "$node" iptables -w -t nat -A "${rule[@]}"
        sed "s#POD_CIDR#${cidr[$node]}#" "$dir/conflist.json" >"$dir/conflist-$node.json"
        run "$ENGINE" exec "$node" mkdir -p /etc/cni/net.d
        run "$ENGINE" cp "$dir/conflist-$node.json" "$node:/etc/cni/net.d/10-kailab.conflist"
    done
}

# gpus_offered NODE COUNT: whether the kubelet offers the GPUs of its device plugin
gpus_offered() { [ "$("$KUBECTL" get node "$1" -o 'jsonpath={.status.allocatable.nvidia\.com/gpu}')" = "$2" ]; }

# gpu_labels NODE: label a node with what GPU feature discovery finds there
gpu_labels() {
    local pod labels
    pod=$("$KUBECTL" get pod -n kube-system -l name=nvidia-device-plugin-ds --field-selector "spec.nodeName=$1" -o name)
    read -ra discovery <<<"$GPU_DISCOVERY"
    labels=$("$KUBECTL" exec -n kube-system "$pod" -- "${discovery[@]}" 2>/dev/null | grep -E '^nvidia\.com/[^ ]+=[^ ]*$')
    # shellcheck disable=SC2086 # one label per word
    "$KUBECTL" label node "$1" --overwrite $labels
}

gpus() {
    local node count labels
    while read -r node count labels; do
        run "$ENGINE" exec -i "$node" sh -c "$GPU_INSTALL" <"$dir/gpu-$node.tar"
        # shellcheck disable=SC2086 # one label per word
        run "$KUBECTL" label node "$node" --overwrite $labels </dev/null
    done <"$dir/gpu-nodes"
    run "$KUBECTL" apply -f "$dir/gpu.json"
    run "$KUBECTL" rollout status daemonset -n kube-system nvidia-device-plugin-daemonset --timeout=180s
    while read -r node count labels; do
        retry 120 gpus_offered "$node" "$count" </dev/null
        retry 60 gpu_labels "$node" </dev/null
    done <"$dir/gpu-nodes"
}

# tenant_kubeconfig NAME PORT: vCluster writes the Secret once its API runs
tenant_kubeconfig() {
    "$KUBECTL" get secret "vc-$1" -n "vcluster-$1" -o 'jsonpath={.data.config}' | base64 -d >"$dir/$1.kubeconfig"
    grep -qE "https://127\.0\.0\.1:$2([^0-9]|\$)" "$dir/$1.kubeconfig"
}

run "$KIND" create cluster --name "$NAME" --image "$IMAGE" --config "$dir/kind.yaml" --kubeconfig "$KUBECONFIG" --retain
if [ "$OWN_NODE" = yes ]; then
    retry 60 "$KUBECTL" wait '--for=jsonpath={.spec.podCIDR}' node --all --timeout=60s
    pod_network
fi
run "$KUBECTL" wait --for=condition=Ready node --all --timeout=120s

while read -r archive; do
    run "$KIND" load image-archive "$archive" --name "$NAME" </dev/null
done <"$dir/images"

[ ! -e "$dir/gpu-nodes" ] || gpus

if [ -n "$KAI_CHART" ]; then
    run "$HELM" install kai-scheduler "$KAI_CHART" --namespace kai-scheduler --create-namespace \
        --values "$dir/kai.json" --wait --timeout 600s
    # helm waits for the operator; the operator's own deployments come after it
    read -ra deployments <<<"$KAI_DEPLOYMENTS"
    retry 300 "$KUBECTL" wait -n kai-scheduler --for=condition=Available --timeout=300s "${deployments[@]}"
    # refused until the queue webhook answers
    [ ! -e "$dir/queues.json" ] || retry 60 "$KUBECTL" apply -f "$dir/queues.json"
fi

[ ! -s "$dir/tenants" ] || run "$KUBECTL" apply -f "$dir/storage.yaml"
while read -r tenant port; do
    run "$HELM" install "$tenant" "$VCLUSTER_CHART" --namespace "vcluster-$tenant" --create-namespace \
        --values "$dir/tenant-$tenant.json" --wait --timeout 300s </dev/null
    retry 60 tenant_kubeconfig "$tenant" "$port" </dev/null
    retry 300 "$KUBECTL" --kubeconfig "$dir/$tenant.kubeconfig" wait -n kube-system --for=condition=Ready pod \
        -l k8s-app=vcluster-kube-dns --timeout=300s </dev/null
done <"$dir/tenants"
