# Pods that start before kube-proxy crash without the API server's Service; kube-proxy's first rules replace this chain.
server=${1:-$(sed -n 's/^ *server: *https:..//p' /etc/kubernetes/kubelet.conf)}
if iptables -w -t nat -N KUBE-SERVICES 2>/dev/null; then
    address=$(getent ahostsv4 "${server%:*}" | sed -n '1s/ .*//p'):${server##*:}
    iptables -w -t nat -A KUBE-SERVICES -d 10.96.0.1 -p tcp --dport 443 -j DNAT --to-destination "$address"
    iptables -w -t nat -I PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
fi
