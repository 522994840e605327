"""`reconcile`: steps back to the wanted placement."""
