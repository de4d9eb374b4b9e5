# SPDX-License-Identifier: BSD-3-Clause
"""Draws how-it-works.svg: one large message on a node, and its course in time with and without
help.

Run it after a change: python docs/img/how_it_works.py. Standard library only; tests check that the
picture in the repository is the one that this script draws.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 960, 660
INK, FAINT, LINE, PAPER = "#1f2933", "#5f6b7a", "#9aa5b1", "#ffffff"
WORK, WAIT = "#d9dee5", "#ffffff"
RANKS = ["#d55e00", "#0072b2", "#009e73", "#aa4499"]  # told apart by colour-blind readers too
# The rank that copies each chunk of the message.
COPIERS = [1, 0, 2, 3, 1, 0, 2, 3]


class Drawing:
    def __init__(self) -> None:
        self.parts: list[str] = []

    def add(self, tag: str, body: str = "", **attributes: object) -> None:
        words = "".join(f' {k.replace("_", "-")}="{v}"' for k, v in attributes.items())
        self.parts.append(f"<{tag}{words}>{body}</{tag}>" if body else f"<{tag}{words}/>")

    def text(self, x: float, y: float, words: str, **style: object) -> None:
        style = {"fill": INK, "font_size": 14, **style}
        self.add("text", escape(words), x=x, y=y, **style)

    def box(self, x: float, y: float, w: float, h: float, **style: object) -> None:
        style = {"fill": PAPER, "stroke": LINE, "rx": 4, **style}
        self.add("rect", x=x, y=y, width=w, height=h, **style)

    def arrow(self, points: str, colour: str, width: float = 1.6, **style: object) -> None:
        head = "head" + colour.lstrip("#")
        self.add(
            "path",
            d=points,
            fill="none",
            stroke=colour,
            stroke_width=width,
            marker_end=f"url(#{head})",
            **style,
        )

    def svg(self) -> str:
        heads = "".join(
            f'<marker id="head{c.lstrip("#")}" viewBox="0 0 8 8" refX="7" refY="4" '
            f'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" '
            f'fill="{c}"/></marker>'
            for c in (*RANKS, INK, FAINT)
        )
        title = "How Manyhands copies one large message with several ranks"
        description = (
            "A sender sends an RTS header through the MPI library, and the receiver opens a job in "
            "shared memory; sender, receiver and two waiting ranks copy the chunks of the message. "
            "Below, a timeline: without help one rank copies, with help four do and the wait ends "
            "sooner."
        )
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" role="img" '
            f'font-family="Helvetica, Arial, sans-serif">\n'
            f"<title>{title}</title>\n<desc>{description}</desc>\n<defs>{heads}</defs>\n"
            f"{body}\n</svg>\n"
        )


def buffer(d: Drawing, x: float, y: float, cell: float, label: str) -> None:
    d.text(x, y - 8, label, font_size=13, fill=FAINT)
    for i, copier in enumerate(COPIERS):
        d.box(x + i * cell, y, cell - 3, 30, fill=RANKS[copier], stroke="none", rx=2)
        middle = x + i * cell + (cell - 3) / 2
        d.text(middle, y + 20, str(copier), text_anchor="middle", fill=PAPER, font_size=13)


def rank_box(d: Drawing, rank: int, x: float, y: float, w: float, h: float, doing: str) -> None:
    d.box(x, y, w, h, stroke=RANKS[rank], stroke_width=2)
    d.text(x + 14, y + 24, f"rank {rank}", font_weight="bold", fill=RANKS[rank], font_size=15)
    d.text(x + 78, y + 24, doing, font_size=14)


def message(d: Drawing) -> None:
    d.text(
        24, 32, "One large message between two ranks of a node", font_weight="bold", font_size=17
    )
    rank_box(d, 0, 24, 52, 270, 112, "sends")
    buffer(d, 38, 110, 30.5, "message, in chunks")
    rank_box(d, 1, 666, 52, 270, 112, "receives")
    buffer(d, 680, 110, 30.5, "receive buffer")

    d.arrow("M296 72 H664", INK)
    d.text(480, 64, "1  an RTS header, through the MPI library", text_anchor="middle")
    d.arrow("M296 125 H664", RANKS[1])
    d.text(480, 117, "3  each chunk is copied once, by whoever claims it", text_anchor="middle")
    d.text(
        480, 144, "(numbers: the rank that copied)", text_anchor="middle", font_size=12, fill=FAINT
    )

    d.box(340, 196, 280, 74, fill="#f4f6f8", stroke=LINE, stroke_dasharray="5 3")
    d.text(480, 218, "memory shared by the node", text_anchor="middle", font_size=13, fill=FAINT)
    d.text(480, 240, "job: from, to, 8 chunks, next chunk", text_anchor="middle")
    d.text(
        480, 260, "one counter: no lock, no queue", text_anchor="middle", font_size=12, fill=FAINT
    )
    d.arrow("M800 166 V232 H624", RANKS[1])
    d.text(790, 254, "2  opens a job", text_anchor="end")

    rank_box(d, 2, 24, 196, 270, 40, "waits: takes a chunk")
    rank_box(d, 3, 24, 244, 270, 40, "waits: takes a chunk")
    d.arrow("M296 216 H338", RANKS[2])
    d.arrow("M296 258 H338", RANKS[3])


def bar(d: Drawing, x: float, y: float, w: float, label: str, fill: str, **style: object) -> None:
    d.box(x, y, w, 22, fill=fill, rx=2, **{"stroke": LINE, **style})
    ink = PAPER if fill in RANKS else FAINT
    d.text(x + w / 2, y + 16, label, text_anchor="middle", font_size=12, fill=ink)


def waiting(d: Drawing, x: float, y: float, w: float) -> None:
    bar(d, x, y, w, "waits", WAIT, stroke_dasharray="4 3")


# The x coordinates of events in the timelines.
START, SENT, PLAIN_END, HELPED_END, END = 130, 330, 730, 450, 936


def timeline(d: Drawing, y: float, title: str, helped: bool) -> None:
    d.text(24, y, title, font_weight="bold", font_size=15)
    end = HELPED_END if helped else PLAIN_END
    for rank in range(4):
        row = y + 14 + rank * 28
        d.text(START - 12, row + 16, f"rank {rank}", text_anchor="end", font_size=13)
        begins = {0: SENT, 1: 280, 2: 240, 3: 205}[rank]
        bar(d, START, row, begins - START - 2, "computes", WORK)
        if rank > 0:
            waiting(d, begins, row, SENT - begins - 2)
        copies = helped or rank == 1
        if copies:
            amount = "copies 2 of 8" if helped else "copies 8 of 8"
            bar(d, SENT, row, end - SENT - 2, amount, RANKS[rank], stroke="none")
        else:
            waiting(d, SENT, row, end - SENT - 2)
        bar(d, end, row, END - end, "goes on", WORK)


def times(d: Drawing) -> None:
    d.text(24, 326, "The same in time", font_weight="bold", font_size=17)
    d.text(936, 326, "time", text_anchor="end", font_size=13, fill=FAINT)
    d.arrow("M240 321 H896", FAINT, 1)
    timeline(d, 356, "Without: one core copies, the others wait", helped=False)
    timeline(d, 512, "With: waiting cores copy too", helped=True)
    d.add("path", d=f"M{PLAIN_END} 362 V640", stroke=FAINT, stroke_dasharray="2 4", fill="none")
    d.add("path", d=f"M{HELPED_END} 518 V640", stroke=FAINT, stroke_dasharray="2 4", fill="none")


def draw() -> str:
    drawing = Drawing()
    drawing.add("rect", width=WIDTH, height=HEIGHT, fill=PAPER)
    message(drawing)
    times(drawing)
    return drawing.svg()


if __name__ == "__main__":
    Path(__file__).with_name("how-it-works.svg").write_text(draw(), encoding="utf-8")
