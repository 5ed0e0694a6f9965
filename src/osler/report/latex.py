"""A table as LaTeX for the booktabs package."""

from __future__ import annotations

from osler.report.tables import Shown, Table, alignments, column_groups, shown_rows


def latex_table(table: Table) -> str:
    """The table as LaTeX for the booktabs package."""
    width = len(table.fields)
    lines = [r"\begin{table}", r"\centering"]
    if table.caption:
        lines.append(rf"\caption{{{_latex(table.caption)}}}")
    lines += [rf"\begin{{tabular}}{{{''.join(align[0] for align in alignments(table))}}}", r"\toprule"]
    if groups := column_groups(table):
        lines.append(" & ".join(rf"\multicolumn{{{n}}}{{c}}{{{_latex(title)}}}" for title, n in groups) + r" \\")
        start = 1
        for title, number in groups:
            if title:
                lines.append(rf"\cmidrule(lr){{{start}-{start + number - 1}}}")
            start += number
    lines += [" & ".join(_latex(column.name) for column in table.fields) + r" \\", r"\midrule"]
    for index, cells in enumerate(shown_rows(table)):
        if index in table.headings:
            lines += [r"\addlinespace"] if index else []
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\textit{{{_latex(table.headings[index])}}}}} \\")
        lines.append(" & ".join(_latex_cell(cell) for cell in cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    if table.note:
        lines += ["", r"\smallskip", rf"{{\footnotesize {_latex(table.note)}}}"]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": r"$-$",
    "–": "--",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


def _latex_cell(cell: Shown) -> str:
    text = rf"\textbf{{{_latex(cell.text)}}}" if cell.best else _latex(cell.text)
    mark = rf"\textsuperscript{{{_latex(cell.mark)}}}" if cell.mark else ""
    return f"{text} {_latex(cell.spread)}".rstrip() + mark
