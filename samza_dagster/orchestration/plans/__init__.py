"""What each job is going to ask, decided from its config and the job's state before anything is asked. Pure."""
