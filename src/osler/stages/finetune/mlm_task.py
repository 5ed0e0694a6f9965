"""Masked language modelling on raw text as one more task, `mlm`, in the mix.

It teaches the encoder alone. Its head is the model folder's own where the folder holds a masked language model, else a fresh one,
and is not part of the bundle. An epoch takes as many of its batches as the largest task has (or as the recipe says) and goes on in
the corpus where the one before it ended, so a large corpus makes no epoch longer. It has no part in choosing the best epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from osler.artifacts.corpus import Corpus
from osler.core.errors import RecipeError
from osler.core.logs import get_logger
from osler.core.seeding import generator
from osler.nn.encoder import PackedEncoder, fresh_encoder, load_encoder
from osler.nn.folders import load_config, quiet, seeded
from osler.nn.masking import Masker, Masking, MaskingVocabulary
from osler.nn.mlm import MaskedLM
from osler.nn.packing import Packed, pack
from osler.stages.finetune.batches import Lane
from osler.stages.finetune.config import FinetuneRecipe, LanguageModelTask
from osler.tasks.leakage import HeldOut
from osler.text.document import Document
from osler.text.subwords import SubwordTokenizer

NAME = "mlm"
"""What the task is called in the mix and in the log."""

log = get_logger("osler.finetune")


@dataclass(frozen=True)
class MaskedText:
    """A packed batch of masked text, the places to fill, what stood there, and the factor of its loss."""

    batch: Packed
    positions: torch.Tensor
    targets: torch.Tensor
    scale: torch.Tensor

    def to(self, device: torch.device) -> MaskedText:
        """A copy on another device."""
        moved = {name: getattr(self, name).to(device, non_blocking=True) for name in ("positions", "targets", "scale")}
        return replace(self, batch=self.batch.to(device, non_blocking=True), **moved)


@dataclass(frozen=True)
class RawText:
    """Windows of the corpus with their special tokens, and what was read for them."""

    windows: Sequence[np.ndarray]
    documents: int
    leaked: int
    """Documents left out because some task holds them out."""


def read_text(
    settings: LanguageModelTask, tokens: SubwordTokenizer, max_length: int, held_out: HeldOut, seed: int, wanted: int
) -> RawText:
    """As many windows as are wanted, or all there are: whole row groups of the corpus in an order that the seed decides."""
    windows: list[np.ndarray] = []
    documents = leaked = 0
    room = max_length - tokens.overhead
    groups = Corpus.open(settings.corpus).row_groups()
    for number in generator(seed, NAME, "groups").permutation(len(groups)):
        texts = groups[number].texts()
        kept = [text for text in texts if not held_out.gives_away(NAME, Document("", text))]
        leaked += len(texts) - len(kept)
        for encoding in tokens.encode(kept):
            ids = encoding.ids
            documents += bool(ids)
            windows += [tokens.wrap(ids[start : start + room]) for start in range(0, len(ids), room)]
        if len(windows) >= wanted:
            break
    if not windows:
        raise RecipeError(
            "nothing of the corpus is left to learn from",
            where=settings.corpus,
            fix="Give mlm.corpus documents that are not among those the tasks hold out",
        )
    log.event("finetune.mlm", documents=documents, windows=len(windows), leaked_removed=leaked)
    return RawText(windows, documents, leaked)


def sequences_a_batch(recipe: FinetuneRecipe, max_length: int) -> int:
    """How many windows a batch holds under both limits of the recipe."""
    size = recipe.mixing.batch_sizes.get(NAME, recipe.batch_size)
    return max(1, min(size, recipe.batch_tokens // max_length))


class TextLane(Lane):
    """Batches of windows, masked anew each time: a window comes again only when all the others have come."""

    def __init__(
        self,
        recipe: FinetuneRecipe,
        text: RawText,
        tokens: SubwordTokenizer,
        max_length: int,
        batches: int,
        *,
        types: bool,
    ) -> None:
        assert recipe.mlm is not None
        vocabulary = MaskingVocabulary.of(tokens)
        self.loss_weight = recipe.mlm.weight
        self.seed = recipe.train.seed
        self.batches = batches
        self.turns_fixed = recipe.mlm.batches is not None
        self.size = sequences_a_batch(recipe, max_length)
        self.rate = recipe.mlm.rate
        self.masker = Masker(vocabulary, Masking(rate=self.rate))
        self.pad_id = vocabulary.pad_id
        self.types = types
        self.windows = text.windows
        self._maskable = [int((~self.masker.special[window]).sum()) for window in text.windows]
        self._orders: dict[int, np.ndarray] = {}

    def cut(self, epoch: int) -> Sequence[tuple[int, ...]]:
        """Places in one endless row of windows, pass after pass."""
        first = epoch * self.batches
        return [
            tuple(range(number * self.size, (number + 1) * self.size)) for number in range(first, first + self.batches)
        ]

    def labels(self, items: tuple[int, ...]) -> float:
        """The number of masked tokens."""
        chosen = [self._window(place) for place in items]
        asked = max(1, int(sum(len(self.windows[number]) for number in chosen) * self.rate))
        return float(min(asked, sum(self._maskable[number] for number in chosen)))

    def load(self, items: tuple[int, ...], scale: float) -> tuple[MaskedText, int]:
        """Mask the windows of a batch, by a stream of its own, and pack them."""
        windows = [self.windows[self._window(place)] for place in items]
        ids = np.concatenate(windows)
        masked = self.masker.apply(ids, generator(self.seed, NAME, "mask", items[0]))
        ends = np.cumsum([len(window) for window in windows])
        packed = pack(
            np.split(masked.ids, ends[:-1]),
            token_types=[np.zeros(len(window), dtype=np.int64) for window in windows] if self.types else None,
            pad_id=self.pad_id,
        )
        parts = (torch.from_numpy(masked.positions), torch.from_numpy(masked.targets))
        return MaskedText(packed, *parts, torch.tensor(scale, dtype=torch.float32)), len(ids)

    def _window(self, place: int) -> int:
        turn, index = divmod(place, len(self.windows))
        if turn not in self._orders:
            self._orders[turn] = generator(self.seed, NAME, "order", turn).permutation(len(self.windows))
        return int(self._orders[turn][index])


def language_model(folder: Path, *, seed: int, reinitialise: bool) -> tuple[PackedEncoder, MaskedLM]:
    """The encoder of a model folder, and a masked language model around that very encoder."""
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
        # In place, so that the head stays tied to the embeddings.
        model.base_model.load_state_dict(encoder.model.state_dict())
        masked = MaskedLM(model.eval())
    log.event("finetune.language_head", fresh=not own or reinitialise)
    return PackedEncoder(masked.model.base_model), masked
