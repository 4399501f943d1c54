"""What every other package stands on: types, errors, checks of input, bins, counts, intervals, p-values, names."""
