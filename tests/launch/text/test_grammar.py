"""Does reading a script tell where bash stops, and where its comments, commands and texts stand?"""

from __future__ import annotations

import pytest

from preflight.launch.text import grammar
from preflight.launch.text.bash import Verdict

RIGHT = (
    "",
    "# only a comment",
    "a && b || c | d; e & wait",
    "if a; then b; elif c; then d; else e; fi",
    "for x in 1 2; do echo $x; done",
    "for x; do echo; done",
    "for ((i = 0; i < 3; i++)); do echo; done",
    "while read -r x; do echo; done < <(seq 3)",
    "until a; do b; done",
    "select x in a b; do break; done",
    "case $x in a | b) echo ;; (c) ;; *) echo; esac",
    "case $x in\n  -h) echo ;;&\n  '') ;&\n  *)\n    ;;\nesac",
    "f() { echo; }\nfunction g { echo; }\nfunction h() (echo)",
    "[[ $a == *.txt && ( $b =~ ^x(y|z)$ || -n $c ) ]] && echo",
    "[[ ${a} < ${b} ]]",
    "(( a > b )) && echo $(( (1 + 2) * 3 ))",
    "((a = 1)); (( b++ )) || true",
    "( (echo a); (echo b) )",
    "a=(1 2 # three\n 4)\na+=(5)\na[1]=x\ndeclare -A m=([k]=v)",
    "echo $(echo ')' \"$(echo ')')\") `echo \\`echo\\``",
    'echo "${a:-"b c"}" ${a//\\//_} ${#a} ${a%\\}} $\'it\\\'s\'',
    "cat <<EOF\n'unclosed $(echo)\nEOF\necho",
    "cat <<-'EOF' > x\n\ttext\n\tEOF\necho",
    "cat <<A <<B\na\nA\nb\nB",
    "x=$(cat <<EOF\n)\nEOF\n)",
    "diff <(a) >(b) 2>&1 >/dev/null &> x 3<&- <<< word",
    "! time -p a | b |& c",
    "a \\\n  --b 'c\nd' \\\n  # comment",
    "{ a; } > x 2>&1 || { b; }",
    "if [ 1 ]; then (a) fi",
    "echo if then fi done } esac",
    "x=1 y=$z cmd >out",
    "echo a#b ${#} $# $((16#ff))",
    "echo {a,b}{1..3} ~ !x",
    "coproc x { a; }\ntrue",
    "((a << 2))\necho b",
    "(( a = b ? 1 : 2 )) && (( c | d ))",
    "for ((;;)); do ((a)); break; done",
    "if ((a < b)); then ((a >>= 1)); fi",
    "while ((i--)); do :; done < x > y",
    "a=$((1 << 2)) b=$[1 << 2]\necho",
    "echo <<<'EOF'\necho",
    "until [[ -f x ]]; do sleep 1; done &",
    "case a in a) ;; esac; case b in (b) ;& *) echo; esac",
    "f() if a; then b; fi\ng() { case x in x) ;; esac; }",
)
WRONG = (
    ("if a; then b", "if", 1),
    ("a\nfor x in 1; do\n  b\n", "do", 2),
    ("case x in\n a) b ;;\n", "case", 1),
    ("a\nb }\n}\n", "", 3),
    ("fi", "", 1),
    ("if a; then\n  # nothing\nfi", "", 3),
    ("for x in 1; do\n  # nothing\ndone", "", 3),
    ("while true; do a; fi", "", 1),
    ("if a then b; fi", "", 1),
    ("echo 'a\necho b", "'", 1),
    ('a="b\nc="d"\n', '"', 1),
    ("x=$(a\nb", "$(", 1),
    ("x=${a\nb", "${", 1),
    ("x=(1\n2", "(", 1),
    ("(a", "(", 1),
    ("{ a;", "{", 1),
    ("[[ a == b", "", 1),
    ("a &&", "", 1),
    ("a | | b", "", 1),
    ("a ;; b", "", 1),
    ("a; ; b", "", 1),
    ("a >\nb", "", 1),
    ("echo (a)", "", 1),
    ("then", "", 1),
    ("f() {\n a\n", "{", 1),
    ("echo `a", "`", 1),
    ("do a; done", "", 1),
    ("while a; do\n  if b; then\n    c\n\n  d\n", "if", 2),
    ("while a; do\n  if b; then\n    c\n  fi\n  d\n", "do", 1),
    ("for x in $(a); do\n  (b) || { c; }\n  echo ${d}\n", "do", 1),
)


@pytest.mark.parametrize("text", RIGHT)
def test_what_bash_reads_is_read_to_its_end(text):
    """Every part of the grammar that launch scripts use."""
    reading = grammar.read(text)
    assert (reading.verdict, reading.torn) == (Verdict(), 0)
    assert not reading.placeholders
    assert not reading.blanked


@pytest.mark.parametrize(("text", "token", "line"), WRONG)
def test_what_bash_refuses_is_found_at_the_line_that_is_wrong(text, token, line):
    """An unclosed text or block is told where it begins, an unexpected token where it stands."""
    reading = grammar.read(text)
    assert reading.verdict.words
    assert (reading.unclosed, reading.torn) == (token, line)


def test_a_hole_is_a_word_and_a_redirection_is_none():
    """<ADDRESS> with nothing but a word's end around it was meant as a text."""
    text = "a --ip <ADDRESS>:29500 --n <number of nodes> \\\n <x >y < z > w <(b) 2>&1 <in.txt> out"
    reading = grammar.read(text)
    assert [text[start:end] for start, end in reading.placeholders] == ["<ADDRESS>", "<number of nodes>"]
    assert grammar.filled("a <B>", grammar.read("a <B>")) == "a '<B>'"


def test_what_the_form_is_judged_by_is_noted():
    """Comments outside of texts, backslashes with a blank behind them, here-documents without an end, commands."""
    text = "a 'x \\ \n' \\ \n-b # c\ncat <<E\n# d\n E\n"
    reading = grammar.read(text)
    assert [text[place] for place in reading.comments] == ["#"]
    assert len(reading.blanked) == 1
    assert reading.verdict.open_documents == ((4, "E"),)
    assert len(reading.commands) == 3


def test_hostile_depth_ends_soon():
    """Thousands of open parentheses are given up on, without a verdict."""
    for text in ("(" * 5000, "$(" * 5000, "if " * 5000, '"${' * 3000):
        grammar.read(text)


@pytest.mark.parametrize("text", ["", "a", "\n", "a\n", "ab\n\nc", "\n\nabc\nd\n"])
def test_every_place_of_a_text_has_its_line_and_every_line_its_end(text):
    """As counting line feeds says; beyond the last line is its end."""
    lines = grammar.Lines(text)
    assert [lines.line(place) for place in range(len(text) + 1)] == [
        1 + text[:place].count("\n") for place in range(len(text) + 1)
    ]
    rows = text.split("\n")
    ends = [len("\n".join(rows[: number + 1])) for number in range(len(rows))]
    assert [lines.end(number + 1) for number in range(len(rows))] == ends
    assert lines.end(len(rows) + 5) == len(text)


@pytest.mark.parametrize(
    ("text", "is_too_deep"),
    [
        ("((((", True),
        ("(((", False),
        ("()" * 9, False),
        (")))((((", True),
        ("(()((", False),
        ("((()((", True),
        ("", False),
    ],
)
def test_only_what_is_open_at_one_place_counts(monkeypatch, text, is_too_deep):
    """Closed ones do not, and none can be closed that was not opened; the grammar is not asked to mend what is."""
    monkeypatch.setattr(grammar, "DEPTH_LIMIT", 3)
    assert grammar.is_too_deep(text) is is_too_deep
    assert (grammar.parse(text).text == b"(") is is_too_deep
