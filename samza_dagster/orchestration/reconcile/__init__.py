"""`reconcile`: the job that mends a placement."""
