"""Does bash itself make the same words of a script, and run the same commands?"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.launch.text.scripts import words

BASH = shutil.which("bash") or ""
pytestmark = pytest.mark.skipif(not BASH, reason="bash is not there")
VALUES = """A=gpu01,gpu02
B=node-1.lan
C='a b  c'
D=
N=07
M=12
X=5
o=(x 'y z' w)
e=()
set -- p 'q r' 3
"""
WORDS = r"""
$A ${A} "$A" '$A' \$A $A$B "$A$B" $A.$B pre$C"post" "$C" $C "$D" $D ""$D a$D
${A%%,*} ${A%,*} ${A#*,} ${A##*,} ${B%.lan} ${B%%.*} ${B##*-} ${B#node-} ${A%x} ${A#x}
${A/,/-} ${A//,/-} ${A//gpu/n} ${A/gpu/} ${A//,/ } "${A//,/ }" ${A/x/y} ${A^^} ${A,,}
${C%% *} "${C#* }" ${D+x} ${D:+x}y ${A/gpu??/x} ${A//[0-9]/n} ${B%[.-]*} ${A^} ${B^^[a-n]} ${A//,/" "}
${A:0:3} ${A:3} ${A:3:2} ${A: -2} ${A:0:0} ${A:1:100}
${A:-x} ${D:-x} ${D-x} ${U-x} ${U:-x} ${U:-a b} "${U:-a b}" ${U:-$A} ${U:+x} ${A:+x} ${D:+x} ${A+x} ${U:=7}
${o[0]} ${o[1]} "${o[1]}" ${o[2]} "${o[3]}" ${o[@]} "${o[@]}" ${o[*]} "${o[*]}" ${#o[@]} ${#o[*]} ${!o[@]} $o ${#e[@]}
"${e[@]}" a"${o[@]}"b
$1 "$2" $2 ${2} "$@" $@ "$*" $# ${3} $4 "$4" ${4:-none} ${1:-none} ${10}
$((2*3+1)) $((7/2)) $((7%3)) $(( (1+2)*3 )) $((M)) $((M+1)) $(($M-1)) $((X*X)) $((2-5))
$((X++)) $X $((++X)) $X $((M/X*X)) $((M-2-1))
{1..3} {01..03} {3..1} n{1..2}.lan a{1..2}b{1..2} "{1..3}" {1..1} {a} {}
a\
b x\
\
y a\ b a\"b "a\"b" "a\$b" "a\\b" 'a"b' "a'b" $'a\tb' $'a\'b' "a b"'c d' "" '' a""b "a
b" #x
a#b "#x" "$A" "${A}" "${A%%,*}:29500" $((M*2))${A%%,*} "$((M * 2)) x" -x--y=$M=z ~+x
$(seq 3) $(seq 2 4) x=$M "x=$C"
"""
OPEN = r"""
${#A} ${A%$M} ${o[X-4]} ${o[-1]} ${#} $((10#$N)) $((1<2)) $((2**3)) $((-3))
$((0x10)) {a,b} x{a,b}y {1..3..2} n{,1} "a$(seq 1 1)"
"""
DECIDED = r"""
if [ $M -eq 12 ]; then run a; else run b; fi
if [ -z "$D" ]; then run a; fi; run z
if [ -n "$D" ]; then run a; fi; run z
[ $M -lt 12 ] && run a; [ $M -le 12 ] && run b; [ $M -ne 12 ] || run c
for i in 1 2 3; do run $i; done
for i in {0..2}; do run n$i; done
for i in $(seq 0 2); do run n$i; done
for i in "${o[@]}"; do run "$i"; done
for i in $C; do run $i; done
for ((i=0; i<3; i++)); do run $i; done
for ((i=1; i<=M; i++)); do run $i; done
for a in 1 2; do for b in x y; do run $a$b; done; done
for i in 1 2; do j=$((i*2)); run $j; done; run $i $j
f() { run "$1" $#; }; f a 'b c'; run $1
f() { A=1; }; f; run $A
f() { local A=1 Z; declare M=2; Z=3; Y=4; run $A $M $Z; }; f; run $A $M $Y
f() { local A; A=1; g; }; g() { run $A; A=5; }; f; run $A
(A=1; run $A); run $A
A=1 run $A; run $A
A=1; A+=2; run $A; o+=(v); run ${#o[@]} ${o[3]}
A=$M B=$A; run $B
shift; run $1 $#
set -- x y; run $2
unset A; run ${A:-gone}
export Q=1; run $Q; readonly R=2; run $R; declare -i I=3; run $I; declare S=4; run $S
let X=X+1; run $X; ((X++)); run $X; ((X+=2)); run $X; X=$((X*2)); run $X
true && run a; false && run b; false || run c; true || run d; ! false && run e
run a; exit 0; run b
{ run a; run b; }
run a & wait; run b
run a | cat; run b
echo $A > /dev/null; run "$A" > /dev/stdout
P="$1 $2"; run $P; run "$P"
P='$A'; run $P; eval "run $P"
P="run a"; $P b; "${o[0]:+run}" c
"""
UNDECIDED = r"""
if [ $M -gt 12 ]; then run a; elif [ $M -ge 12 ]; then run b; else run c; fi
if [[ $A == gpu* ]]; then run a; else run b; fi
if [[ $A != gpu01 && -n $A ]]; then run a; else run b; fi
if [ "$A" = gpu01,gpu02 ] || [ "$M" = 1 ]; then run a; else run b; fi
if (( M > 11 )); then run a; else run b; fi
if [ ! -z "$A" ]; then run a; else run b; fi
[[ -z $D ]] && run a || run b
case $M in 1) run a;; 12) run b;; *) run c;; esac
case $A in x*|gpu*) run a;; *) run b;; esac
"""
WORD = re.compile(
    r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|\$'(?:\\.|[^'\\])*'|\$\(\(.*?\)\)|\$\([^)]*\)|\$\{[^}]*\}|\\.|\S)+""", re.DOTALL
)


def by_bash(text: str) -> list[list[str]]:
    """The words of each `run` that bash runs, with nothing in its environment."""
    script = f"run() {{ printf '%s\\0' RUN \"$@\"; }}\n{VALUES}{text}\n"
    done = subprocess.run([BASH, "-c", script, "x.sh"], env={}, capture_output=True, text=True, timeout=60, check=False)
    return runs_in(done.stdout.split("\0")[:-1])


def runs_in(printed: list[str]) -> list[list[str]]:
    """The words behind each RUN."""
    found: list[list[str]] = []
    for word in printed:
        found.append([]) if word == "RUN" else found[-1].append(word)
    return found


def as_read(text: str) -> list[list[str]]:
    """The words of each `run` that we expect to run."""
    return [command[1:] for command in words(f"{VALUES}{text}\n") if command[0] == "run"]


@pytest.mark.parametrize("word", WORD.findall(WORDS))
def test_a_word_becomes_what_bash_makes_of_it(word):
    """Expansions, quotes, braces, arithmetic and arrays of known values; `end` shows where a word leaves nothing."""
    assert as_read(f"run {word} end") == by_bash(f"run {word} end")


@pytest.mark.parametrize("word", WORD.findall(OPEN))
def test_a_word_that_is_not_worked_out_stays_as_it_is_written(word):
    """It is not taken for another value: what bash would make of it stands nowhere."""
    assert as_read(f"run {word} end") == [[word.strip('"'), "end"]]
    assert by_bash(f"run {word} end") != [[word.strip('"'), "end"]]


@pytest.mark.parametrize("script", DECIDED.strip().splitlines())
def test_a_script_that_decides_everything_runs_what_bash_runs(script):
    """The same commands in the same order with the same words."""
    assert as_read(script) == by_bash(script)


@pytest.mark.parametrize("script", UNDECIDED.strip().splitlines())
def test_what_bash_runs_is_among_what_may_run(script):
    """A test that is not worked out leaves every branch open, and none out."""
    mays = as_read(script)
    assert [one for one in by_bash(script) if one not in mays] == []
