"""Changes of the KAI version in a cluster, the lab's own or a tenant's: upgrade, rollback and rehearsal."""
