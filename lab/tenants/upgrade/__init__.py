"""Changes of the KAI version in a tenant: upgrade, rollback and rehearsal."""
