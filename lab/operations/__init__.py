"""Operations on a lab, one module for each command."""
