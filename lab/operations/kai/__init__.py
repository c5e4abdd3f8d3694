"""Operations on the KAI of a running lab, its own or a tenant's."""
