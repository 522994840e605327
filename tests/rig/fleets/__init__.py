"""Fleets of Samza jobs whose every figure is known: what they report, and what is true of them.

A fleet is a pure function of its shape and seed. Nothing here knows how the product reads a
topic, so that it can be held against these answers.
"""

from tests.rig.fleets.answers import Answer, answers
from tests.rig.fleets.courses import Changelog, Restore
from tests.rig.fleets.fleet import Fault, Fleet, Group, Shape, Standby
from tests.rig.fleets.reports import Report, Said, reports, said
from tests.rig.fleets.spoiled import Spoiled, spoiled
from tests.rig.fleets.tempo import Tempo

__all__ = [
    "Answer",
    "Changelog",
    "Fault",
    "Fleet",
    "Group",
    "Report",
    "Restore",
    "Said",
    "Shape",
    "Spoiled",
    "Standby",
    "Tempo",
    "answers",
    "reports",
    "said",
    "spoiled",
]
