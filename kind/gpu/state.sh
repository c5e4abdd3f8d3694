#!/bin/sh
# Prints a node's state, one fact per line: "sum SHA256 PATH", "library PATH" (all files of its folder are intact),
# "link PATH TARGET", "device PATH MAJOR:MINOR", "unit ENABLED ACTIVE", "usage ENABLED ACTIVE" (the unit that reports
# GPU usage), "program PATH", "handler nvidia". Read-only. Arguments: paths to checksum.
unit=kailab-gpu.service
# While the node starts, wait up to 10 s for the unit, if enabled.
tries=0
while [ -e /etc/systemd/system/multi-user.target.wants/$unit ] && [ $tries -lt 100 ]; do
    case $(systemctl is-active $unit 2>/dev/null) in active | failed) break ;; esac
    case $(systemctl is-system-running 2>/dev/null) in running | degraded | stopping) break ;; esac
    tries=$((tries + 1))
    sleep 0.1
done

for path in "$@"; do
    [ -f "$path" ] && echo "sum $(sha256sum "$path")"
done
for sums in /usr/local/lib/kailab/nvml-*/SHA256SUMS; do
    folder=${sums%/*}
    [ -f "$sums" ] || continue
    (cd "$folder" && sha256sum -c --status SHA256SUMS) && echo "library $folder/libnvidia-ml.so.1"
done
for path in /usr/bin/nvidia-smi /usr/local/lib/kailab/gpu-usage; do
    [ -L "$path" ] && echo "link $path $(readlink "$path")"
done
for node in /dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm; do
    [ -c "$node" ] || continue
    numbers=$(stat -c '%t %T' "$node")
    echo "device $node $((0x${numbers% *})):$((0x${numbers#* }))"
done
echo "unit $(systemctl is-enabled $unit 2>/dev/null) $(systemctl is-active $unit 2>/dev/null)"
unit=kailab-gpu-usage.service
echo "usage $(systemctl is-enabled $unit 2>/dev/null) $(systemctl is-active $unit 2>/dev/null)"
for program in nvidia-container-runtime nvidia-ctk; do
    [ -x "/usr/bin/$program" ] && echo "program /usr/bin/$program"
done
grep -qs /usr/bin/nvidia-container-runtime /etc/containerd/config.toml && echo "handler nvidia"
exit 0
