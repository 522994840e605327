"""Bugs planted in the heart, one at a time: does the simulator find them, and how soon?"""
