"""Two drafters of one model write to the same cache.

Made by whoever stores the cache with the model.
"""

from minispec.gpt2 import GPT
from minispec.sampling import Sampling

REPLACES = "draft.py:ModelDrafter.__init__"
CAUGHT_BY = ["test_draft.py"]


class ModelDrafter:
    def __init__(self, model: GPT, sampling: Sampling = Sampling()) -> None:
        self.model, self.sampling = model, sampling
        self.cache = vars(model).setdefault("_cache", model.new_cache())
