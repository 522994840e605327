"""The reducer: a pure function over frozen data. Enter by `reducer.step`."""
