"""Results as tables on a terminal; one module a table. Nothing here computes a result."""
