"""Finding the files that belong together: a text and its annotations, in one folder or in two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from osler.core.errors import InputError
from osler.formats.base import Problems
from osler.formats.sources import SourceTree


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def pair_files(
    tree: SourceTree, text_suffix: str, annotation_suffix: str, problems: Problems
) -> Iterator[tuple[str, str | None]]:
    """Each text with its annotation file, in name order.

    Files of one folder and stem belong together; one without a partner there takes the file of the same name elsewhere,
    where there is exactly one. A text whose folder has no annotated text at all (a README) is not a document.
    """
    texts = {name[: -len(text_suffix)]: name for name in tree if name.lower().endswith(text_suffix)}
    annotations = {name[: -len(annotation_suffix)]: name for name in tree if name.lower().endswith(annotation_suffix)}
    if not annotations:
        raise InputError(
            f"no {annotation_suffix} file here",
            where=tree.root,
            fix=f"Give the folder with the {annotation_suffix} files",
        )
    pairs: dict[str, str] = {texts[stem]: name for stem, name in annotations.items() if stem in texts}
    free: dict[str, list[str]] = defaultdict(list)
    for stem, name in texts.items():
        if name not in pairs:
            free[stem.rpartition("/")[2]].append(name)
    for stem, name in annotations.items():
        if stem in texts:
            continue
        candidates = free.get(stem.rpartition("/")[2], [])
        if len(candidates) == 1 and candidates[0] not in pairs:
            pairs[candidates[0]] = name
        else:
            detail = "the text of this annotation file is missing" if not candidates else "several texts have this name"
            problems.report("missing-text", detail, where=tree.where(name), fix="Give a folder that has both")
    annotated = {_folder(name) for name in pairs}
    for name in sorted(texts.values()):
        partner = pairs.get(name)
        if partner is None:
            if _folder(name) not in annotated:
                continue
            detail = f"this text has no {annotation_suffix} file"
            fix = "Add it (empty where nothing is annotated) or take the text out of the folder"
            problems.report("missing-annotation", detail, where=tree.where(name), fix=fix)
        yield name, partner
