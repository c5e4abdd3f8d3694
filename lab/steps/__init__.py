"""The steps of a lab's own cluster: machine, node image, cluster, network, KAI and queues."""
