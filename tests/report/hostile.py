"""Which texts have been used, or could be, to make a report lie, act or break?"""

from __future__ import annotations

# One of each kind: these go through every test that takes `hostile_report`.
HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07", "\rGO", "a\nb", "\x9b31m", "\x00", "\x7f", "\u202eevil", "\u2066x\u2069", "a\u200bb",
    "\ufeff", "\ud800", "\udfff", "\ufffe", "\uffff", "\u2028", "\x85", "\U000e0041", "\u115f",
    "]]>", "<!--", "&amp;&bogus;",
    "<script>alert(1)</script>", "</failure><x/>", '" onload="', "'", "::error::x", "  ::set-env name=A::b",
    "##vso[task]",
    "##[error]x", "##teamcity[x]", "x\n::stop-commands::t", "{0.__class__}", "{{7*7}}", "%s%n", "[red]x[/red]",
    "\x1b[31m", "a\tb", "x" * 5000, "-" * 300, "=cmd()", "|", "%0A::error::x", "\\x1b",
)  # fmt: skip
HTML = (
    "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", "</script><script>alert(1)</script>", "<!--<script>",
    "</title><script>alert(1)</script>", "</style><style>*{display:none}</style>", "</textarea><b>", "</pre><hr>",
    "<iframe src=javascript:alert(1)>", "<a href=javascript:alert(1)>x</a>", "<base href=//evil.test>",
    "<meta http-equiv=refresh content=0;url=//evil.test>", "<link rel=stylesheet href=//evil.test/x.css>",
    "<form action=//evil.test><input type=submit>", "<object data=x>", "<embed src=x>", "<details open ontoggle=alert(1)>",
    "<math><mi xlink:href=javascript:alert(1)>", "<template><script>alert(1)</script></template>", "<noscript><p title='</noscript>",
    "<body onload=alert(1)>", "<marquee onstart=alert(1)>", "<video><source onerror=alert(1)>", "<input autofocus onfocus=alert(1)>",
    "javascript:alert(1)", "data:text/html,<script>alert(1)</script>", "' onmouseover='alert(1)", '"><b>', "'><b>", "`><b>",
    "><", "<", ">", "&", '"', "&lt;script&gt;", "&#60;script&#62;", "&#x3c;b&#x3e;", "&", "&amp;amp;", "<b", "</", "<?php x ?>",
    "<%= x %>", "<![CDATA[x]]>", "<!DOCTYPE html>", "<!ENTITY x SYSTEM 'file:///etc/passwd'>", "&x;", "<\x00script>", "<scr\x00ipt>",
    "\u003cscript\u003e", "＜script＞", "style=display:none", "expression(alert(1))", "url(//evil.test)", "@import '//evil.test'",
    "*/ body{display:none} /*", "</svg><script>alert(1)</script>", "<title>x</title>", "-->", "--!>", "<plaintext>", "<xmp>", "</body></html>",
)  # fmt: skip
TERMINAL = (
    "\x1b[0;0H", "\x1bc", "\x1b]8;;http://evil.test\x07x\x1b]8;;\x07", "\x1b]52;c;ZWNobw==\x07", "\x1bP+q\x1b\\", "\x1b[?1049h",
    "\x1b[8m", "\x08\x08\x08GO", "\x0b", "\x0c", "\x0e", "\x0f", "\x11", "\x13", "\x1a", "\x1e", "\x1f", "\x90", "\x9d0;x\x9c", "\x84", "\x8d",
    "\x9bm", "FAIL\rPASS", "a\r\nb", "a\n\nb", "\n", " ", "  ", "\t", "a\u00a0b", "\u3000",
)  # fmt: skip
UNICODE = (
    "\u202a", "\u202b", "\u202c", "\u202d", "\u2067", "\u2068", "\u061c", "\u200e", "\u200f", "\u200c", "\u200d", "\u2060", "\u2061",
    "\u2064", "\u206a", "\u206f", "\u180e", "\u00ad", "\u034f", "\u2800", "\u3164", "\uffa0", "\ufe0f", "\ufff9", "\ufffb", "\ufffd",
    "\U0001d173", "\U000e0001", "\U000e007f", "\U000e0100", "\U0010ffff", "\ue000", "\U000f0000", "\ud83d", "\udc00\ud800", "\u2029",
    "e\u0301", "Z̸̡͖̈a̶l̵g̴o̸", "שלום", "مرحبا", "\u0456 (not i)", "K\u212a", "ﷺ", "🏴\U000e0067\U000e007f", "👨\u200d👩\u200d👧", "\u1d2c",
)  # fmt: skip
SHEET = (
    "=1+1", "+1", "-1", "@SUM(A1)", "=cmd|' /C calc'!A0", "=HYPERLINK(\"http://evil.test\")", "\t=1+1", "\r=1+1", " =1+1", "\n=1+1",
    "＝1+1", "＋1", "－1", "＠SUM(1)", '"=1+1', "';=1+1", ",=1+1", ";=1+1", "a,b", 'a"b', '"', "''", "=\x00", "%0A=1+1", "0x1", "1e999", "NaN", "-inf",
)  # fmt: skip
MARKDOWN = (
    "# heading", "**bold**", "_a_", "`code`", "``", "```", "````\n# x", "~~~", "[x](javascript:alert(1))", "![x](http://evil.test/x.png)",
    "[x]: http://evil.test", "<http://evil.test>", "http://evil.test", "www.evil.test", "@github", "#1", "owner/repo#1", ":tada:", "- [ ] x", "1. x",
    "> x", "***", "---", "===", "a|b", "|---|", "\\|", "\\", "\\`", "`\\", "| a |\n|---|\n| b |", "$x$", "$$x$$", "a  \nb", "    x", "^1", "[^1]", "~~x~~",
    "<details>", "</details>", "<!-- x", "`|`", "``|", "x`", "`x", " ` ",
)  # fmt: skip
COMMANDS = (
    "::warning file=a::b", "::add-mask::x", "::group::x", "::endgroup::", "::save-state name=x::y", "::debug::x", "##[command]x", "##[section]",
    "##vso[task.setvariable variable=x]y", "##teamcity[buildStatus text='x']", "%0D%0A::error::x", "section_start:1:x", "travis_fold:start:x",
)  # fmt: skip
TEMPLATE = (
    "{{ 7*7 }}", "{% raw %}", "{% endraw %}", "{# x #}", "{{ ''.__class__ }}", "{{ self }}", "{{ config }}", "{%", "}}", "${7*7}", "#{7*7}", "<%", "{0}",
    "{x}", "%(x)s", "%d", "%", "$HOME", "$(id)", "`id`", "; rm -rf /", "&& id", "| id", "--help", "-oProxyCommand=id", "../../etc/passwd", "~", "*",
    "[bold]x[/]", "[/]", "[link=http://evil.test]x[/link]", "\\[red]", "None", "null", "true", "__proto__", "constructor", "length", "node1 ",
)  # fmt: skip
METRIC = ('"} 1\nup{x="', '\\"', '\\n', 'a\\', '{x="y"} 1', "# TYPE x counter", "# EOF", 'x"} 1 #')  # fmt: skip
CORPUS = (*HOSTILE, *HTML, *TERMINAL, *UNICODE, *SHEET, *MARKDOWN, *COMMANDS, *TEMPLATE, *METRIC)
