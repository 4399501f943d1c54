"""In how many made-up worlds tests are tried: one number, so that a verdict agrees with the figures beside it."""

N_WORLDS = 400
