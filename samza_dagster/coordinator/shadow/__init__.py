"""What our coordinator would have done for a job that Samza's own Application Master leads.

`picture` reads what is public, `episodes` turns two pictures into events, `decision` asks the rules of
`placement`, `work` measures downtime, `log` keeps the events, `report` sums them up.
"""
