"""Changes the KAI of a tenant: upgrade, rollback and their rehearsal."""
