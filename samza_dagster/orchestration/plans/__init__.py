"""What each job is going to ask and to wait for, decided from its config and the job's state before. Pure."""
