"""The reducer: one pure reducer over plain frozen data. `reducer.step` is its door."""
