#!/bin/sh
# Prints a node's state, one fact per line: "sum SHA256 PATH", "minor N", "modify N", "gpu UUID" (NVML's current list),
# "spec UUID" (GPUs that NVIDIA's runtime can inject), "unit ENABLED ACTIVE", "program PATH", "handler nvidia".
# Read-only. Arguments: paths to checksum.
unit=kailab-nvidia.service
# While the node starts, wait up to 30 s for the unit, if enabled.
tries=0
while [ -e /etc/systemd/system/multi-user.target.wants/$unit ] && [ $tries -lt 300 ]; do
    case $(systemctl is-active $unit 2>/dev/null) in active | failed) break ;; esac
    case $(systemctl is-system-running 2>/dev/null) in running | degraded | stopping) break ;; esac
    tries=$((tries + 1))
    sleep 0.1
done

for path in "$@"; do
    [ -f "$path" ] && echo "sum $(sha256sum "$path")"
done
for node in /dev/nvidia[0-9]*; do
    [ -e "$node" ] && echo "minor ${node##*/nvidia}"
done
sed -n 's/^ModifyDeviceFiles: /modify /p' /proc/driver/nvidia/params 2>/dev/null
if [ -s /etc/kailab/gpus ]; then
    nvidia-ctk --quiet cdi generate --mode=auto --format=json --device-name-strategy=uuid 2>/dev/null |
        jq -r '.devices[].name | select(startswith("GPU-")) | "gpu " + .'
    jq -r '.devices[].name | select(startswith("GPU-")) | "spec " + .' /etc/cdi/nvidia.json 2>/dev/null
fi
echo "unit $(systemctl is-enabled $unit 2>/dev/null) $(systemctl is-active $unit 2>/dev/null)"
for program in nvidia-container-runtime nvidia-ctk nvidia-cdi-hook; do
    [ -x "/usr/bin/$program" ] && echo "program /usr/bin/$program"
done
grep -qs /usr/bin/nvidia-container-runtime /etc/containerd/config.toml && echo "handler nvidia"
exit 0
