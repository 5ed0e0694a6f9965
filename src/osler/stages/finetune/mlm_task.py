"""Masked language modelling on raw text as an additional task, `mlm`.

It trains the encoder. Its head is the model folder's own language-model head if there is one, else a new one, and is not saved in the
bundle. An epoch takes as many batches as the largest task (or as the recipe sets) and continues in the corpus where the last epoch
ended, so a large corpus does not lengthen epochs. Raw text plays no part in choosing the best epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from osler.artifacts.bundle import Bundle
from osler.artifacts.corpus import Corpus
from osler.core.errors import RecipeError
from osler.core.logs import get_logger
from osler.core.seeding import generator
from osler.nn.encoder import PackedEncoder, fresh_encoder, load_encoder
from osler.nn.folders import load_config, quiet, seeded
from osler.nn.masking import Masker, Masking, MaskingVocabulary
from osler.nn.mlm import MaskedLM
from osler.nn.packing import Packed, pack
from osler.stages.finetune.batches import TaskStream
from osler.stages.finetune.config import MLM, FinetuneRecipe
from osler.tasks.leakage import HeldOut, Leaks
from osler.text.document import Document

log = get_logger("osler.finetune")


@dataclass(frozen=True)
class MaskedText:
    """A packed batch of masked text, the masked positions, their original tokens, and the loss factor."""

    batch: Packed
    positions: torch.Tensor
    targets: torch.Tensor
    scale: torch.Tensor


@dataclass(frozen=True)
class RawText:
    """Windows of a corpus with special tokens, and the number of documents read."""

    windows: Sequence[np.ndarray]
    documents: int
    leaks: Leaks
    """Corpus documents that are also in a task's held-out data."""


def text_stream(
    recipe: FinetuneRecipe, bundle: Bundle, streams: Mapping[str, TaskStream], held_out: HeldOut
) -> TextStream:
    """Read row groups of the corpus in random order until there are enough windows, and batch them."""
    assert recipe.mlm is not None
    tokens, max_length = bundle.tokens, bundle.spec.max_length
    batches = recipe.mlm.batches or max(len(stream.cut(0)) for stream in streams.values())
    size = min(recipe.mixing.batch_sizes.get(MLM, recipe.batch_size), recipe.batch_tokens // max_length)
    size = max(1, size)
    windows: list[np.ndarray] = []
    all_owners: list[set[str]] = []
    documents = 0
    room = max_length - tokens.overhead
    groups = Corpus.open(recipe.mlm.corpus).row_groups()
    for number in generator(recipe.train.seed, MLM, "groups").permutation(len(groups)):
        texts = groups[number].texts()
        owners = [held_out.owners(MLM, Document("", text)) for text in texts]
        all_owners += owners
        kept = [text for text, names in zip(texts, owners, strict=True) if recipe.leaks == "keep" or not names]
        for encoding in tokens.encode(kept):
            ids = encoding.ids
            documents += bool(ids)
            windows += [tokens.wrap(ids[start : start + room]) for start in range(0, len(ids), room)]
        if len(windows) >= recipe.epochs * batches * size:
            break
    if not windows:
        raise RecipeError(
            "the corpus has no document to train on",
            where=recipe.mlm.corpus,
            fix="Give mlm.corpus documents that the tasks do not hold out",
        )
    leaks = Leaks.count(all_owners)
    log.event("finetune.mlm", documents=documents, windows=len(windows), leaks=leaks.found)
    text = RawText(windows, documents, leaks)
    types = getattr(bundle.model.encoder.config, "type_vocab_size", 1) > 1
    return TextStream(recipe, text, MaskingVocabulary.of(tokens), batches, size, types=types)


class TextStream(TaskStream):
    """Batches of windows, masked anew each time. A window repeats only after all others were used."""

    def __init__(
        self,
        recipe: FinetuneRecipe,
        text: RawText,
        vocabulary: MaskingVocabulary,
        batches: int,
        size: int,
        *,
        types: bool,
    ) -> None:
        assert recipe.mlm is not None
        self.loss_weight = recipe.mlm.weight
        self.turns_fixed = recipe.mlm.batches is not None
        self.seed = recipe.train.seed
        self.text = text
        self.batches = batches
        self.size = size
        self.rate = recipe.mlm.rate
        self.masker = Masker(vocabulary, Masking(rate=self.rate))
        self.pad_id = vocabulary.pad_id
        self.types = types
        self._maskable = [int((~self.masker.special[window]).sum()) for window in text.windows]
        self._orders: dict[int, np.ndarray] = {}

    def cut(self, epoch: int) -> Sequence[tuple[int, ...]]:
        """Return batches of positions in an endless sequence of passes over the windows."""
        first = epoch * self.batches
        return [
            tuple(range(number * self.size, (number + 1) * self.size)) for number in range(first, first + self.batches)
        ]

    def labels(self, items: tuple[int, ...]) -> float:
        chosen = [self._window(position) for position in items]
        asked = max(1, int(sum(len(self.text.windows[number]) for number in chosen) * self.rate))
        return float(min(asked, sum(self._maskable[number] for number in chosen)))

    def load(self, items: tuple[int, ...], scale: float) -> tuple[MaskedText, int]:
        windows = [self.text.windows[self._window(position)] for position in items]
        ids = np.concatenate(windows)
        masked = self.masker.apply(ids, generator(self.seed, MLM, "mask", items[0]))
        ends = np.cumsum([len(window) for window in windows])
        packed = pack(
            np.split(masked.ids, ends[:-1]),
            token_types=[np.zeros(len(window), dtype=np.int64) for window in windows] if self.types else None,
            pad_id=self.pad_id,
        )
        parts = (torch.from_numpy(masked.positions), torch.from_numpy(masked.targets))
        return MaskedText(packed, *parts, torch.tensor(scale, dtype=torch.float32)), len(ids)

    def _window(self, position: int) -> int:
        turn, index = divmod(position, len(self.text.windows))
        if turn not in self._orders:
            self._orders[turn] = generator(self.seed, MLM, "order", turn).permutation(len(self.text.windows))
        return int(self._orders[turn][index])


def language_model(folder: Path, *, seed: int, reinitialise: bool) -> tuple[PackedEncoder, MaskedLM]:
    """Load the encoder of a model folder and a masked language model that shares its weights."""
    from transformers import AutoModelForMaskedLM

    config = load_config(folder)
    own = any(str(name).endswith(("ForMaskedLM", "ForPreTraining")) for name in config.architectures or ())
    if own and not reinitialise:
        masked = MaskedLM.load(folder)
    else:
        auto: Any = AutoModelForMaskedLM
        encoder = fresh_encoder(folder, seed=seed) if reinitialise else load_encoder(folder)
        with seeded(seed, "masked-lm"), quiet():
            model = auto.from_config(config, dtype=torch.float32)
        # Copy in place to keep the head tied to the embeddings.
        model.base_model.load_state_dict(encoder.model.state_dict())
        masked = MaskedLM(model.eval())
    log.event("finetune.language_head", fresh=not own or reinitialise)
    return PackedEncoder(masked.model.base_model), masked
