"""Shared by the tests of this folder."""

import torch

# Several test processes with several threads each would spend their time waiting for one another.
torch.set_num_threads(1)
