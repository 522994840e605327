"""The shadow: what our coordinator would have done for a job under Samza's Application Master.

`picture` reads what is public, `events` says what happened between two of them, `decision` asks the
rules of `placement`, `downtime` measures, `log` keeps the events and sums them up.
"""
