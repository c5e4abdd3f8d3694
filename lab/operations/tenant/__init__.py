"""Operations on tenants, one module for each command of 'kailab tenant'."""
