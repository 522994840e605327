"""The sensors that judge a job: read, judge, remember, tell; and the runs that follow."""
