"""Tokenizers that were published as vocabulary files, before tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from osler.artifacts.tokenizer import TOKENIZER, read_tokenizer_json
from osler.core.errors import ArtifactError, InputError
from osler.text.subwords import SubwordTokenizer

Casing = Literal["cased", "uncased"]
_CONFIG, _SPECIAL, _ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
_VOCABULARY, _BPE = "vocab.txt", ("vocab.json", "merges.txt")
_COMPLETE = "Give the complete folder of a model"
_BERT = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
_ROBERTA = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "cls_token": "<s>",
    "mask_token": "<mask>",
}
# Tokenizer classes that split text as this module does. Others split text differently with the same files.
_CLASSES = {
    _VOCABULARY: ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "PreTrainedTokenizer"),
    _BPE[0]: ("RobertaTokenizer", "GPT2Tokenizer", "LongformerTokenizer", "PreTrainedTokenizer"),
}
_TYPES = {_VOCABULARY: ("bert", "distilbert", "electra"), _BPE[0]: ("roberta", "longformer")}
# Above this share of capitalised entries, lower-casing would make part of the vocabulary unreachable.
_CAPITALISED = 0.01


@dataclass(frozen=True)
class PublishedTokenizer:
    """A tokenizer read from the files that were published with a model."""

    tokenizer: tokenizers.Tokenizer
    roles: dict[str, str]
    """Special tokens by their role, such as `mask_token`."""
    casing: Casing
    reason: str
    """Where the casing comes from."""
    files: tuple[Path, ...]

    @property
    def size(self) -> int:
        return SubwordTokenizer(self.tokenizer).size

    @property
    def pad_id(self) -> int | None:
        return self.tokenizer.token_to_id(self.roles["pad_token"]) if "pad_token" in self.roles else None


def read_tokenizer(folder: Path, model_type: str, cased: bool | None = None) -> PublishedTokenizer:
    """Read the tokenizer of a published model.

    The casing comes from the files. `cased` is required if they do not state it, and must not contradict them.
    """
    settings = _Settings.read(folder)
    if (folder / TOKENIZER).is_file():
        files: tuple[Path, ...] = (folder / TOKENIZER,)
        tokenizer = read_tokenizer_json(folder / TOKENIZER)
        bpe = json.loads(tokenizer.to_str())["model"]["type"] == "BPE"
        roles = settings.roles(_ROBERTA if bpe or "<s>" in tokenizer.get_vocab() else _BERT)
        _check_same(tokenizer, folder)
        # Letters in byte-level entries stand for bytes.
        entries = {} if bpe else tokenizer.get_vocab()
        casing, reason = _agree(folder, {TOKENIZER: _lowers(tokenizer), **settings.casing}, entries, cased)
    elif (folder / _VOCABULARY).is_file():
        settings.check_class(_VOCABULARY, model_type)
        files = (folder / _VOCABULARY,)
        vocabulary = read_vocabulary(folder / _VOCABULARY)
        roles = settings.roles(_BERT)
        casing, reason = _agree(folder, settings.casing, vocabulary, cased)
        tokenizer = _wordpiece(vocabulary, roles, settings, lowercase=casing == "uncased")
    elif all((folder / name).is_file() for name in _BPE):
        settings.check_class(_BPE[0], model_type)
        files = tuple(folder / name for name in _BPE)
        roles = settings.roles(_ROBERTA)
        tokenizer = _byte_level(folder, roles, settings)
        casing, _ = _agree(folder, {_BPE[0]: False, **settings.casing}, {}, cased)
        reason = "byte-level BPE has no lower-casing"
    else:
        raise _no_tokenizer(folder)
    missing = [name for name in roles.values() if tokenizer.token_to_id(name) is None]
    if missing:
        raise ArtifactError(
            f"the vocabulary has no {missing[0]!r}, which is a special token of this model",
            where=files[0],
            fix=_COMPLETE,
        )
    return PublishedTokenizer(tokenizer, roles, casing, reason, (*files, *settings.files))


def states_casing(folder: Path) -> bool:
    """Whether a file beside the vocabulary states whether the tokenizer lower-cases."""
    return bool(_Settings.read(folder).casing)


def read_vocabulary(path: Path) -> dict[str, int]:
    """Read the entries of a vocab.txt, mapped to their line numbers."""
    entries: dict[str, int] = {}
    for number, entry in enumerate(_text(path).removesuffix("\n").split("\n")):
        if entry in entries:
            raise InputError(
                "this entry is in the vocabulary twice", where=f"{path}:{number + 1}", fix="Download the file again"
            )
        entries[entry] = number
    return entries


@dataclass(frozen=True)
class _Settings:
    """Settings from the small files beside a vocabulary."""

    folder: Path
    files: tuple[Path, ...]
    config: Mapping[str, Any]
    special: Mapping[str, Any]
    added: Mapping[str, int]

    @classmethod
    def read(cls, folder: Path) -> _Settings:
        files = tuple(folder / name for name in (_CONFIG, _SPECIAL, _ADDED) if (folder / name).is_file())
        found = {path.name: _json(path) for path in files}
        return cls(folder, files, found.get(_CONFIG, {}), found.get(_SPECIAL, {}), found.get(_ADDED, {}))

    @property
    def casing(self) -> dict[str, bool]:
        """Whether text is lower-cased, by the file that states it."""
        stated = self.config.get("do_lower_case")
        return {_CONFIG: stated} if isinstance(stated, bool) else {}

    def roles(self, usual: Mapping[str, str]) -> dict[str, str]:
        """Special tokens by role, from the files or else the usual ones."""
        found = {}
        for role, default in usual.items():
            named = [_content(source.get(role)) for source in (self.config, self.special)]
            if None not in named and named[0] != named[1]:
                raise InputError(
                    f"{_CONFIG} and {_SPECIAL} name another {role}", where=self.folder, fix="Correct one of them"
                )
            found[role] = named[0] or named[1] or default
        return found

    def option(self, name: str, default: bool | None) -> bool | None:
        value = self.config.get(name, default)
        return default if value is None else bool(value)

    def check_class(self, layout: str, model_type: str) -> None:
        """Raise an error for a tokenizer class that splits text differently."""
        stated = self.config.get("tokenizer_class")
        name = str(stated).removesuffix("Fast") if stated else None
        plain = name in _CLASSES[layout] if name else model_type in _TYPES[layout]
        other = [path.name for path in sorted(self.folder.glob("*.codes"))]
        if not plain or other or self.config.get("do_basic_tokenize") is False or self.config.get("never_split"):
            shown = stated or (other[0] if other else f"a {model_type} model")
            raise ArtifactError(
                f"{layout} of {shown} cannot be read as a plain vocabulary: its tokenizer may split text in another way",
                where=self.folder,
                fix=f"Make a {TOKENIZER} with transformers (save_pretrained of its tokenizer), put it here and run again",
            )


def _agree(
    folder: Path, stated: Mapping[str, bool], entries: Mapping[str, int], cased: bool | None
) -> tuple[Casing, str]:
    """Determine the casing from files, vocabulary and user, and where it comes from."""
    said = dict(stated) | ({} if cased is None else {f"--{_word(not cased)}": not cased})
    if len(set(said.values())) > 1:
        listed = ", but ".join(_claim(who, lowers) for who, lowers in said.items())
        raise InputError(listed, where=folder, fix="Correct the one that is wrong")
    capitals, words = _capitalised(entries)
    evidence = f"{capitals:,} of {words:,} entries of the vocabulary have capital letters"
    hint = "--cased" if capitals > _CAPITALISED * words else "--uncased" if not capitals and words else None
    if not said:
        advice = f"; {evidence}, which suggests {hint}" if hint else ""
        raise InputError(
            f"no file says whether the model is cased{advice}",
            where=folder,
            fix="Add --cased or --uncased, whichever its publisher says",
        )
    who, lowers = next(iter(said.items()))
    if words and hint and hint != f"--{_word(lowers)}":
        raise InputError(
            f"{_claim(who, lowers)}, but {evidence}",
            where=folder,
            fix=f"Check with the publisher which one is right; {_CONFIG} states it as do_lower_case",
        )
    return ("uncased" if lowers else "cased"), f"as {who} says"


def _claim(who: str, lowers: bool) -> str:
    return f"{who} was given" if who.startswith("--") else f"{who} says {_word(lowers)}"


def _word(lowers: bool) -> str:
    return "uncased" if lowers else "cased"


def _capitalised(entries: Mapping[str, int]) -> tuple[int, int]:
    """Count entries with capital letters and all entries, except names in brackets such as [CLS]."""
    words = [entry for entry in entries if not (entry[:1] in "[<" and entry[-1:] in "]>" and len(entry) > 2)]
    return sum(entry != entry.lower() for entry in words), len(words)


def _lowers(tokenizer: tokenizers.Tokenizer) -> bool:
    return tokenizer.normalizer is not None and tokenizer.normalizer.normalize_str("Aa").strip() == "aa"


def _wordpiece(
    vocabulary: dict[str, int], roles: Mapping[str, str], settings: _Settings, *, lowercase: bool
) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=roles["unk_token"]))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.option("tokenize_chinese_chars", True) is not False,
        strip_accents=settings.option("strip_accents", None),
        lowercase=lowercase,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    sep, cls = ((roles[role], vocabulary.get(roles[role], 0)) for role in ("sep_token", "cls_token"))
    tokenizer.post_processor = processors.BertProcessing(sep, cls)
    _add(tokenizer, roles, settings)
    return tokenizer


def _byte_level(folder: Path, roles: Mapping[str, str], settings: _Settings) -> tokenizers.Tokenizer:
    names, merges = (folder / name for name in _BPE)
    vocabulary = _json(names)
    pairs = [line.rstrip("\r") for line in _text(merges).split("\n")]
    pairs = [line for line in pairs if line and not line.startswith("#version")]
    for number, line in enumerate(pairs, start=1):
        if line.count(" ") != 1:
            raise InputError(f"merge {number} is not two entries", where=merges, fix="Download the file again")
    prefix_space = bool(settings.option("add_prefix_space", False))
    try:
        model = models.BPE(
            vocabulary,
            [(first, second) for first, _, second in (line.partition(" ") for line in pairs)],
            continuing_subword_prefix="",
            end_of_word_suffix="",
        )
    except Exception:  # the library raises plain Exception
        raise InputError(
            f"{_BPE[0]} and {_BPE[1]} do not fit together", where=folder, fix="Download both again"
        ) from None
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    sep, cls = ((roles[role], vocabulary.get(roles[role], 0)) for role in ("sep_token", "cls_token"))
    tokenizer.post_processor = processors.RobertaProcessing(sep, cls, add_prefix_space=prefix_space)
    _add(tokenizer, roles, settings)
    return tokenizer


def _add(tokenizer: tokenizers.Tokenizer, roles: Mapping[str, str], settings: _Settings) -> None:
    """Add the tokens that were published beside the vocabulary, with their ids, and mark the special ones."""
    for token, number in sorted(settings.added.items(), key=lambda item: item[1]):
        if tokenizer.token_to_id(token) is None:
            tokenizer.add_tokens([AddedToken(token, normalized=False)])
        if tokenizer.token_to_id(token) != number:
            raise InputError(
                f"{_ADDED} gives an entry the id {number}, the vocabulary gives it {tokenizer.token_to_id(token)}",
                where=settings.folder,
                fix="Check that the files belong together",
            )
    known = [name for name in dict.fromkeys(roles.values()) if tokenizer.token_to_id(name) is not None]
    # RoBERTa's mask takes the space before it, as in pretraining.
    takes_space = {roles["mask_token"]} if roles["mask_token"] == _ROBERTA["mask_token"] else set()
    tokenizer.add_special_tokens([AddedToken(name, lstrip=name in takes_space, normalized=False) for name in known])


def _check_same(tokenizer: tokenizers.Tokenizer, folder: Path) -> None:
    """Raise an error if a vocab.txt or vocab.json has other entries than the tokenizer.json beside it."""
    known = tokenizer.get_vocab(with_added_tokens=True)
    others = {}
    if (folder / _VOCABULARY).is_file():
        others[_VOCABULARY] = read_vocabulary(folder / _VOCABULARY)
    if (folder / _BPE[0]).is_file():
        others[_BPE[0]] = _json(folder / _BPE[0])
    for name, entries in others.items():
        differing = sum(known.get(entry) != number for entry, number in entries.items())
        if differing:
            raise InputError(
                f"{TOKENIZER} and {name} differ in {differing:,} entries",
                where=folder,
                fix="Remove the one that does not belong to the model",
            )


def _no_tokenizer(folder: Path) -> ArtifactError:
    pieces = [path.name for path in sorted(folder.glob("*.model"))]
    if pieces:
        return ArtifactError(
            f"the tokenizer is a sentencepiece model ({pieces[0]}) without a {TOKENIZER}",
            where=folder,
            fix=f"Make a {TOKENIZER} with transformers (save_pretrained of its tokenizer), put it here and run again",
        )
    return ArtifactError(
        f"no tokenizer here: neither {TOKENIZER}, {_VOCABULARY}, nor {' with '.join(_BPE)}", where=folder, fix=_COMPLETE
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(_text(path))
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise InputError("not valid JSON", where=path, fix="Download the file again")
    return values


def _text(path: Path) -> str:
    """Read a UTF-8 file, with line ends as \\n only. Other separators are vocabulary entries."""
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError("the file is not UTF-8", where=f"{path}:{line}", fix="Download the file again") from None


def _content(token: Any) -> str | None:
    """Content of a special token, given as a string or a mapping."""
    if isinstance(token, Mapping):
        token = token.get("content")
    return token if isinstance(token, str) else None


def sample_texts() -> Sequence[str]:
    """Texts on which two copies of a tokenizer must agree: capitals, accents, numbers, marks, other scripts."""
    return (
        "The patient was given Aspirin 81 mg b.i.d. for CHEST pain; BP 120/80.",
        "Paciente varón de 63 años, sin fiebre; dolor torácico (EVA 7/10).",
        "β-blockers, IL-2 and 5′-UTR: p53+/− ≥ 3 µmol/L 中文",
    )
