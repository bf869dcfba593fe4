"""Does the page keep its promises in a real browser: what is wrong in view, a filter that works, text as text?"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from preflight.judge.ledger.findings import Command, Finding, Verdict
from preflight.report.html.page import html_text
from preflight.report.html.trend import trend_html
from preflight.report.language import chosen
from preflight.report.material import Material
from preflight.report.printable import printable
from preflight.report.trend import trend
from tests.browser import browser, why_not
from tests.lab.fixtures import needs_lab
from tests.report.hostile import CORPUS
from tests.report.large import large

DATA = Path(__file__).parents[1] / "data/report"
FACTS = {
    "node1": {"kernel": "6.1", "its MTU": "9000"},
    "node2": {"kernel": "6.1", "its MTU": "9000"},
    "node3": {"kernel": "6.1", "its MTU": "1500"},
}
VISIBLE_ROWS = """
const lines = [...document.querySelectorAll('#matrix .line:not([hidden])')];
return lines.map((line) => line.querySelector('.check').textContent);
"""
TYPE = """
const input = document.getElementById(arguments[0]);
input.value = arguments[1];
input.dispatchEvent(new Event('input', {bubbles: true}));
"""
CONTRAST = (DATA / "contrast.js").read_text(encoding="utf-8")
AXE = Path(sys.prefix) / "node_modules/axe-core/axe.min.js"
AUDIT = (DATA / "audit.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def window():
    """One browser for all tests of this file."""
    needs_lab(why_not())
    with browser() as opened:
        yield opened


@pytest.fixture
def show(window, tmp_path):
    """Opens the page of a report, and fails at the end if the console had anything to say."""

    def opened(report, *, facts=FACTS, logs=None, width=1280, height=800):
        path = tmp_path / "report.html"
        path.write_text(html_text(Material(report, facts, logs or {})), encoding="utf-8")
        window.open(path, width=width, height=height)
        return window

    window.media()
    yield opened
    assert window.log() == []


def is_in_view(window, selector, words):
    """Whether an element with these words lies wholly inside the window, not covered."""
    return window.run(
        """
        const [selector, words] = arguments;
        const related = (a, b) => a && (a.contains(b) || b.contains(a));
        return [...document.querySelectorAll(selector)].some((element) => {
          const box = element.getBoundingClientRect();
          const at = document.elementFromPoint(box.left + 5, box.top + box.height / 2);
          const isInside = box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth;
          return element.textContent.includes(words) && isInside && box.height > 0 && related(at, element);
        });
        """,
        selector,
        words,
    )


def test_node_cause_and_fix_are_in_view_without_scrolling(show, planted):
    """At 1280x800 a person reads the verdict, the node, what was found there, and what to do."""
    window = show(planted)
    assert is_in_view(window, "h1 .word", "NO-GO")
    assert is_in_view(window, "h1 .detail", "node3")
    assert is_in_view(window, ".cause .on", "node3")
    assert is_in_view(window, ".cause .message", "9000 on node[1-2], 1500 on node3")
    assert is_in_view(window, ".cause .fix", "ip link set dev")
    assert not is_in_view(window, "#run h2", "The run")


def test_the_filter_by_words_shows_the_checks_that_hold_all_of_them(show, planted):
    """Check ids and messages are searched, every word must be there, an empty one shows all again."""
    window = show(planted)
    everything = window.run(VISIBLE_ROWS)
    assert len(everything) == 49
    window.run(TYPE, "words", "MTU same")
    assert window.run(VISIBLE_ROWS)[0] == "network.mtu_is_the_same_on_every_node"
    assert len(window.run(VISIBLE_ROWS)) == 7  # and the six whose message names it
    window.run(TYPE, "words", "no such thing")
    assert window.run(VISIBLE_ROWS) == []
    assert window.run("return document.getElementById('none').checkVisibility()")
    assert window.run("return document.getElementById('count').textContent") == "0 of 49 checks"
    window.run(TYPE, "words", "")
    assert window.run(VISIBLE_ROWS) == everything


def test_the_filter_by_verdict_and_node_work_together(show, planted):
    """Only fails, and of node1 alone none is left."""
    window = show(planted)
    window.run(
        "for (const box of document.querySelectorAll('#filter input[type=checkbox]:not([value=f])')) box.click()"
    )
    assert window.run(VISIBLE_ROWS) == ["network.mtu_is_the_same_on_every_node"]
    window.run(TYPE, "who", "node1")
    assert window.run(VISIBLE_ROWS) == []
    window.run(TYPE, "who", "node1, NODE3")
    assert window.run(VISIBLE_ROWS) == ["network.mtu_is_the_same_on_every_node"]
    shown = "return [...document.querySelectorAll('#matrix .line:not([hidden]) .cell')].filter(c => !c.hidden).length"
    assert window.run(shown) == 2


def test_many_nodes_become_a_band_that_the_filter_redraws(show, make_report):
    """One fail among 512 is a shape of its own, and the words follow the nodes chosen."""
    names = tuple(f"node{number:03}" for number in range(512))
    report = make_report(
        Finding("a.b", Verdict.FAIL, (names[77],), "it is off"),
        Finding("a.b", Verdict.PASS, names[:77] + names[78:], "holds"),
        size=1,
        nodes={name: make_report().nodes["node1"] for name in names},
    )
    window = show(report, facts={})
    box = "const b = document.querySelector('.strip .f').getBoundingClientRect(); return [b.width, b.height]"
    width, height = window.run(box)
    assert width >= 2
    assert height >= 12
    assert window.run("return document.querySelector('.line .summary').textContent") == "fail node077 · pass 511"
    window.run(TYPE, "who", "node07")
    assert window.run("return document.querySelector('.line .summary').textContent") == "fail 1 · pass 9"
    assert window.run(box)[0] > 10 * width
    window.run(TYPE, "who", "")
    assert window.run("return document.querySelector('.line .summary').textContent") == "fail node077 · pass 511"


def test_a_link_leads_to_a_check_and_to_a_state_of_the_filter(show, planted):
    """What the filter shows is in the address; a check in it is open and in view."""
    window = show(planted)
    window.run(TYPE, "words", "mtu same")
    shown = window.run(VISIBLE_ROWS)
    assert window.run("return location.hash") == "#words=mtu+same"
    check = "network.mtu_is_the_same_on_every_node"
    window.run(f"location.hash = '#check={check}'; return new Promise((done) => setTimeout(done, 50))")
    assert len(window.run(VISIBLE_ROWS)) == 49
    assert window.run("return document.querySelector('.line[open] .check').textContent") == check
    assert window.run("return document.activeElement.querySelector('.check').textContent") == check
    window.run("location.hash = '#words=mtu+same'; return new Promise((done) => setTimeout(done, 50))")
    assert window.run(VISIBLE_ROWS) == shown


def test_a_phone_shows_what_stands_out_with_its_nodes_in_words(show, planted):
    """Cells without names say nothing; a box brings the rest."""
    window = show(planted, width=390)
    assert 0 < len(window.run(VISIBLE_ROWS)) < 20
    row = "return document.querySelector('.line:not([hidden]) .summary').checkVisibility()"
    assert window.run(row)
    assert window.run("return document.querySelector('.line:not([hidden]) .summary').textContent").count("node3")
    assert not window.run("return document.querySelector('.line .cells').checkVisibility()")


def test_paper_leaves_out_what_passed(show, planted):
    """And says so."""
    window = show(planted)
    window.media(kind="print")
    assert not window.run("return document.querySelector('.line.v-p').checkVisibility()")
    assert window.run("return document.querySelector('.line.v-f').checkVisibility()")
    assert window.run("return document.querySelector('.paper').checkVisibility()")


def test_a_row_opens_by_keyboard(show, planted):
    """Focus on a row and Enter: its findings with nodes and fix; the commands can be copied by a named button."""
    window = show(planted)
    window.run("document.querySelector('.line summary').focus()")
    for kind in ("keyDown", "keyUp"):
        window.devtools(
            "Input.dispatchKeyEvent",
            {
                "type": kind,
                "key": "Enter",
                "code": "Enter",
                "text": "\r" * (kind == "keyDown"),
                "windowsVirtualKeyCode": 13,
            },
        )
    assert window.run("return document.querySelector('.line').open")
    assert "1500 on node3" in window.run("return document.querySelector('.line .more').innerText")
    assert window.run("return document.querySelector('.fix button').getAttribute('aria-label')").startswith(
        "Copy ip link"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(show, planted, scheme):
    """Contrast of at least 4.5 to 1 for all visible text, by day and by night, with everything opened."""
    window = show(planted, logs={"bench-rank0.log": "a line"})
    window.media(scheme=scheme)
    window.run("for (const d of document.querySelectorAll('details')) d.open = true")
    assert window.run(CONTRAST) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_controls_pictures_and_headings_are_named(show, full_report, width):
    """What a screen reader needs is there, and on a phone nothing is wider than the window."""
    assert show(full_report, width=width).run(AUDIT) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_many_runs_is_clean_too(window, series, tmp_path, width):
    """Nothing is wider than the window, nothing overlaps, and axe-core has nothing to mend."""
    runs = series([12.0, 12.1, 6.0, 6.1], step=[0.1, 0.1, 0.1, 0.3])
    (tmp_path / "trend.html").write_text(trend_html(trend(runs, [run.report.run.id for run in runs])))
    window.open(tmp_path / "trend.html", width=width, height=800)
    assert window.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert window.run(CONTRAST) == []
    if AXE.is_file():
        window.devtools("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8") + "; 0"})
        assert window.run("return axe.run().then((r) => r.violations.map((v) => [v.id, v.nodes[0].html]))") == []
    assert window.log() == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("count", [3, 64, 512])
def test_a_page_of_any_size_shows_the_first_cause_first(show, count, scheme, width):
    """Verdict and cause without scrolling, nothing sideways, one card a cause; below 1 MB, clean for axe."""
    report = large(count)
    facts = {name: {"kernel": "6.1", "its MTU": "9000"} for name in report.nodes}
    assert len(html_text(Material(report, facts, {})).encode()) < 1_000_000
    window = show(report, facts=facts, width=width)
    window.media(scheme=scheme)
    assert window.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert is_in_view(window, "h1 .word", "NO-GO")
    assert is_in_view(window, ".cause:first-of-type .check", "network.mtu_is_the_same_on_every_node")
    assert is_in_view(window, ".cause:first-of-type .message", "9000 on the others")
    cards = window.run("return [...document.querySelectorAll('.cause .check')].map((e) => e.textContent)")
    assert len(cards) == len(set(cards)) == (2 if count == 3 else 3)
    top = "return document.getElementById('nodes').getBoundingClientRect().top + scrollY"
    assert width == 390 or window.run(top) < 3 * 800
    if AXE.is_file():
        window.devtools("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8") + "; 0"})
        # Of hundreds of rows that are drawn alike the first ones: axe takes longer than a script may for all of them.
        alike = ".line:nth-child(n+30), #nodes tbody tr:nth-child(n+30)"
        window.run("for (const row of document.querySelectorAll(arguments[0])) row.remove()", alike)
        found = "return axe.run().then((r) => r.violations.map((v) => [v.id, v.nodes[0].html]))"
        assert window.run(found) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_mend(show, full_report, scheme):
    """The rules of axe-core, with everything opened; our own audit of contrast and names runs where it is absent."""
    if not AXE.is_file():
        pytest.skip(f"axe-core is not there: npm install --no-save --prefix {sys.prefix} axe-core")
    window = show(full_report, logs={"bench-rank0.log": "a line"})
    window.media(scheme=scheme)
    window.run("for (const d of document.querySelectorAll('details')) d.open = true")
    # Through DevTools: the page's policy lets no script in but its own.
    window.devtools("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8") + "; 0"})
    found = "return axe.run().then((r) => [r.passes.length, r.violations.map((v) => [v.id, v.nodes[0].html])])"
    passes, violations = window.run(found)
    assert violations == []
    assert passes > 20


def test_on_paper_there_are_no_controls_and_what_is_wrong_stands_open(show, planted):
    """Printing shows light colours, no filter, and the findings of every check that does not hold."""
    window = show(planted)
    window.media(scheme="dark", kind="print")
    assert not window.run("return document.getElementById('filter').checkVisibility()")
    assert window.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    window.run("dispatchEvent(new Event('beforeprint'))")
    assert window.run("return [...document.querySelectorAll('.line[open]')].length") == 7


def test_without_scripts_everything_can_be_read(window, show, planted):
    """A CI system that forbids scripts still shows verdict, matrix and plots, and no dead filter."""
    window.devtools("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(planted)
    finally:
        window.devtools("Emulation.setScriptExecutionDisabled", {"value": False})
    assert window.run("return document.querySelectorAll('#matrix .line').length") == 49
    assert window.run("return document.querySelectorAll('svg.plot path').length") > 10
    assert not window.run("return document.getElementById('filter').checkVisibility()")


HOSTILE_NAMES = (*CORPUS["html"], *CORPUS["one of each"][:8], "constructor", "__proto__")


@pytest.mark.parametrize("texts", [HOSTILE_NAMES[3::5], HOSTILE_NAMES], ids=["one in five", "all"])
def test_a_hostile_name_stays_text(show, make_hostile, texts):
    """No alert, no element, no request and no word on the console comes of any of them; the name is read as it is."""
    for text in texts:
        window = show(make_hostile(text), facts={text: {text: text}}, logs={text: text})
        names = window.run("return [...document.querySelectorAll('#nodes tbody th')].map(e => e.textContent)")
        assert printable(text) in names
        acting = "img, iframe, object, embed, form[action], a[href^=javascript], script:not([id])"
        assert window.run("return document.querySelectorAll(arguments[0]).length", acting) == 1
        assert window.run("return performance.getEntriesByType('resource').length") == 0
        window.run(TYPE, "words", text.strip())
        assert window.log() == []


def test_a_script_of_somebody_else_would_not_run(window, tmp_path, planted):
    """Even with a hole in the escaping the policy lets no other script, style or picture act."""
    page = html_text(Material(planted))
    act = "document.title = 'owned'"
    hole = f'<script>{act}</script><img src=http://127.0.0.1:9/x onerror="{act}"><p style="color: red">'
    path = tmp_path / "report.html"
    path.write_text(page.replace("<main>", f"<main>{hole}"), encoding="utf-8")
    window.open(path)
    assert window.run("return document.title").startswith("NO-GO")
    assert "Content Security Policy" in " ".join(window.log())


def test_the_button_copies_the_command_and_not_the_advice_around_it(show, make_report):
    """The lines of each node as they are to be typed; where none is known, the one command that advice has in it."""
    line = Command("node3", "ip link set dev eth0 mtu 1500")
    advice = "`ulimit -n 65536` on the nodes named"
    window = show(
        make_report(
            Finding("a.b", Verdict.FAIL, ("node3",), "1500 on node3", "as the others have it", commands=(line,)),
            Finding("c.d", Verdict.FAIL, ("node2",), "nofile is 1024", advice),
        )
    )
    copied = """
    const said = [];
    Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { said.push(text); }}});
    for (const button of document.querySelectorAll('.cause .fix button')) button.click();
    return said;
    """
    assert window.run(copied) == ["ssh node3 ip link set dev eth0 mtu 1500", "ulimit -n 65536"]
    assert window.run("return document.querySelector('.cause .fix button').textContent") == "Copied"


def test_the_last_tick_of_a_plot_is_not_cut(show, full_report):
    """The words "64 MiB" end inside of its picture."""
    outside = """
    return [...document.querySelectorAll('svg.plot text')].filter((text) => {
      const [box, picture] = [text.getBoundingClientRect(), text.closest('svg').getBoundingClientRect()];
      return box.right > picture.right + 0.5 || box.left < picture.left - 0.5;
    }).map((text) => text.textContent);
    """
    assert show(full_report).run(outside) == []


def test_what_the_script_says_is_in_the_language_of_the_page(window, planted, tmp_path):
    """The count of the filter and the button, in Chinese, with their numbers."""
    path = tmp_path / "report.html"
    path.write_text(html_text(Material(planted, FACTS, {}, language=chosen("zh", {}))), encoding="utf-8")
    window.open(path)
    assert window.run("return document.getElementById('count').textContent") == "49 / 49 项检查"
    assert window.run("return document.querySelector('.fix button').textContent") == "复制"
    assert window.run("return document.querySelector('.cause .on').textContent").split() == ["位于", "node3"]
    window.run(TYPE, "who", "node1")
    assert window.run("return document.getElementById('count').textContent").endswith("，1 / 3 个节点")


def test_the_paper_of_many_nodes_is_short_where_one_did_not_answer(show, make_report):
    """What only follows from it, and nodes that pass, are on the screen alone; a row's words have the whole width."""
    names = tuple(f"gpu-node-{number:04}" for number in range(200))
    lost, others = names[77:79], names[:77] + names[79:]
    reach = "reach.every_node_answers"
    report = make_report(
        Finding(reach, Verdict.ERROR, lost, "not reached"),
        *(Finding(f"a.c{n}", Verdict.ERROR, lost, f"blocked by {reach}", blocked_by=reach) for n in range(60)),
        *(Finding(f"a.c{n}", Verdict.PASS, others, "holds") for n in range(60)),
        Finding("b.c", Verdict.FAIL, others[:3], "it is off"),
        size=1,
        nodes={name: make_report().nodes["node1"] for name in names},
    )
    window = show(report, facts={}, width=700)
    narrow = "const b = document.querySelector('.line .summary').getBoundingClientRect(); return [b.width, b.height]"
    width, height = window.run(narrow)
    assert width > 500
    assert height < 60
    window.media(kind="print")
    shown = "return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility()).length"
    assert window.run(shown, "#matrix .line") == 2
    assert window.run(shown, "#nodes tbody tr") == 5
    assert window.run(shown, ".paper") == 2
