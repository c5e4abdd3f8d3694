#!/bin/sh
# Removes a node's GPUs that /etc/kailab/gpus does not list (one line each: MINOR UUID) and writes the CDI spec of the
# rest. An empty list removes all GPUs. LIST, DEV, PARAMS and SPEC are for tests.
set -eu
list=${LIST:-/etc/kailab/gpus}
dev=${DEV:-/dev}
params=${PARAMS:-/proc/driver/nvidia/params}
spec=${SPEC:-/etc/cdi/nvidia.json}

# With ModifyDeviceFiles: 1, NVML and nvidia-smi recreate device nodes of all GPUs. NVIDIA's runtime 1.18 and newer
# masks the parameter, but only in containers with GPUs.
if grep -qs '^ModifyDeviceFiles: 1$' "$params"; then
    masked=$(mktemp /run/nvidia-params.XXXXXX)
    sed 's/^ModifyDeviceFiles: 1$/ModifyDeviceFiles: 0/' "$params" >"$masked"
    chmod 0444 "$masked"
    mount --bind "$masked" "$params"
fi

listed=" "
while read -r minor _; do
    listed="$listed$minor "
done <"$list"
for node in "$dev"/nvidia[0-9]*; do
    [ -e "$node" ] || continue
    case $listed in *" ${node##*/nvidia} "*) continue ;; esac
    # a node that kind mounted cannot be removed while it is mounted
    while umount "$node" 2>/dev/null; do :; done
    rm -f "$node"
done

if [ "$listed" = " " ]; then
    rm -f "$spec"
    exit 0
fi

# Libraries that kind mounted one by one lack soname links.
ldconfig 2>/dev/null || true

# Remove the variable that hides from a container which GPU it has, and the machine's sockets, whose mounts fail in
# nested containers (nvidia-container-toolkit issue 1593). --mode is required: the default comes from the runtime's
# config, and this command does not support its "cdi".
mkdir -p "$(dirname "$spec")"
nvidia-ctk --quiet cdi generate --mode=auto --format=json --device-name-strategy=index --device-name-strategy=uuid >"$spec.new"
jq '.containerEdits.env = [.containerEdits.env[]? | select(startswith("NVIDIA_VISIBLE_DEVICES=") | not)]
    | .containerEdits.mounts = [.containerEdits.mounts[]? | select(.hostPath | test("^(/var)?/run/|^/tmp/") | not)]
    | del(.containerEdits | .env, .mounts | select(. == []))' "$spec.new" >"$spec.kailab"
mv -f "$spec.kailab" "$spec"
rm -f "$spec.new"
