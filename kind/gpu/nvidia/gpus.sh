#!/bin/sh
# Leaves a node the GPUs that /etc/kailab/gpus lists (a line each: MINOR UUID) and describes them to NVIDIA's runtime.
# A node without any loses all. LIST, DEV, PARAMS and SPEC are for tests.
set -eu
list=${LIST:-/etc/kailab/gpus}
dev=${DEV:-/dev}
params=${PARAMS:-/proc/driver/nvidia/params}
spec=${SPEC:-/etc/cdi/nvidia.json}

# With ModifyDeviceFiles: 1 NVML and nvidia-smi make device nodes of all GPUs again. NVIDIA's runtime masks that by
# itself from 1.18 on, for the containers that asked it for GPUs.
if grep -qs '^ModifyDeviceFiles: 1$' "$params"; then
    masked=$(mktemp /run/nvidia-params.XXXXXX)
    sed 's/^ModifyDeviceFiles: 1$/ModifyDeviceFiles: 0/' "$params" >"$masked"
    chmod 0444 "$masked"
    mount --bind "$masked" "$params"
fi

wanted=" "
while read -r minor _; do
    wanted="$wanted$minor "
done <"$list"
for node in "$dev"/nvidia[0-9]*; do
    [ -e "$node" ] || continue
    case $wanted in *" ${node##*/nvidia} "*) continue ;; esac
    # one that kind mounted cannot be removed before it is unmounted
    while umount "$node" 2>/dev/null; do :; done
    rm -f "$node"
done

if [ "$wanted" = " " ]; then
    rm -f "$spec"
    exit 0
fi

# Libraries that kind mounted one by one have no links by their soname yet.
ldconfig 2>/dev/null || true

# Without the variable that hides from a container which GPU it got, and without the machine's sockets: their
# mounts are refused in a container within a container (nvidia-container-toolkit issue 1593). --mode, because it is
# else taken from the runtime's config, whose "cdi" is none of this command's modes.
mkdir -p "$(dirname "$spec")"
nvidia-ctk --quiet cdi generate --mode=auto --format=json --device-name-strategy=index --device-name-strategy=uuid >"$spec.new"
jq '.containerEdits.env = [.containerEdits.env[]? | select(startswith("NVIDIA_VISIBLE_DEVICES=") | not)]
    | .containerEdits.mounts = [.containerEdits.mounts[]? | select(.hostPath | test("^(/var)?/run/|^/tmp/") | not)]
    | del(.containerEdits | .env, .mounts | select(. == []))' "$spec.new" >"$spec.kailab"
mv -f "$spec.kailab" "$spec"
rm -f "$spec.new"
