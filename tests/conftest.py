"""One thread a test process: the tensors are small, and processes run side by side."""

import torch

torch.set_num_threads(1)
