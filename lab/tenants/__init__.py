"""Tenants: vClusters on the lab's own cluster, isolation from the host's KAI, removal, and upgrades of KAI inside."""
