"""Train the three networks of the bottleneck page anew, on one core in seconds: `python make-model/bottleneck.py`."""

import torch

from clearhead.inside.bottleneck import FOLDER, folder_of, train_networks

if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, model in train_networks().items():
        model.save(FOLDER / folder_of(name), overwrite=True)
