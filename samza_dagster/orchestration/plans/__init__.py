"""Plans: what each job will ask and wait for, by its config and the job's state before. Pure."""
