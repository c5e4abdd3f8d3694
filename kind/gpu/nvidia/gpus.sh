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

# A driver whose programs are elsewhere (/usr/local/nvidia/bin on Google's nodes) gets them into /usr/bin, here and in
# pods.
for program in $(sed -n 's|^[^ ]* \([^ ]*/nvidia-[a-z-]*\) .*|\1|p' /proc/self/mounts); do
    name=/usr/bin/${program##*/}
    [ -e "$name" ] || [ ! -f "$program" ] || ln -sf "$program" "$name"
done

mkdir -p "$(dirname "$spec")"
# --mode is required: the default comes from the runtime's config, and this command does not support its "cdi".
nvidia-ctk --quiet cdi generate --mode=auto --format=json --device-name-strategy=index --device-name-strategy=uuid >"$spec.new"

# Changed in the spec:
# - the variable that hides from a container which GPU it has, and the machine's sockets, whose mounts fail in nested
#   containers (nvidia-container-toolkit issue 1593), are removed;
# - containers get the libraries in Debian's directory: an image without /etc/ld.so.conf, as the distroless ones of KAI
#   and of the device plugin may be, has libraries found in its loader's default directories only.
from=$(jq -r 'first(.containerEdits.mounts[]?.containerPath | select(test("/libnvidia-ml[.]so[.][^/]*$")) |
    sub("/[^/]*$"; "")) // empty' "$spec.new")
to=/usr/lib/$(uname -m)-linux-gnu
jq --arg from "${from:-$to}" --arg to "$to" '
    .containerEdits.env = [.containerEdits.env[]? | select(startswith("NVIDIA_VISIBLE_DEVICES=") | not)]
    | .containerEdits.mounts = [.containerEdits.mounts[]? | select(.hostPath | test("^(/var)?/run/|^/tmp/") | not)]
    | (.containerEdits.mounts[].containerPath, .containerEdits.hooks[]?.args[]?) |= (split($from) | join($to))
    | del(.containerEdits | .env, .mounts | select(. == []))' "$spec.new" >"$spec.kailab"
mv -f "$spec.kailab" "$spec"
rm -f "$spec.new"
