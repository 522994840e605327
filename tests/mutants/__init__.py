"""Bugs planted in the reducer, one at a time: does the simulator find them, and how soon?"""
