"""What does a script write into files, and is such a hostfile judged as if it had been given?"""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.launch.read import read_texts
from preflight.launch.text.statements import read_script
from tests.launch.samples import judged, rules

LINES = ["gpu01 slots=8", "gpu02 slots=8"]
WAYS = {
    "here-document": "cat > hostfile <<EOF\n{lines}\nEOF\n",
    "quoted here-document": "cat <<'EOF' >hostfile\n{lines}\nEOF\n",
    "tee": "tee hostfile <<EOF\n{lines}\nEOF\n",
    "echo": "rm -f hostfile\n{echoes}",
    "echo with -e": "echo -e '{escaped}' > ./hostfile\n",
    "emptied first": "> hostfile\n{echoes}",
    "group": "{{\n{prints}}} > hostfile\n",
    "loop": 'HOSTS=({hosts})\nfor h in "${{HOSTS[@]}}"; do\n  echo "$h slots=8"\ndone > hostfile\n',
    "loop that appends": 'rm -f hostfile\nfor h in {hosts}; do echo "$h slots=8" >> hostfile; done\n',
    "loop into tee": "for h in {hosts}; do echo $h slots=8; done | tee hostfile\n",
    "printf": "printf '%s slots=8\\n' {hosts} > hostfile\n",
    "printf into tee": "printf '%s slots=%d\\n' {pairs} | tee hostfile >/dev/null\n",
    "function": 'put() {{ echo "$1 slots=$2" >> hostfile; }}\nrm hostfile\n{puts}',
    "variable": "F=hostfile\ncat > $F <<EOF\n{lines}\nEOF\n",
}
HOSTS = st.lists(st.sampled_from(["gpu01", "gpu02", "10.0.0.3", "n-4.example.org"]), min_size=1, max_size=5)
START = "deepspeed --hostfile hostfile --num_nodes 2 --master_addr gpu02 train.py\n"


def written(way, hosts):
    """The script that writes these hosts with eight slots each, in one of the ways."""
    lines = [f"{host} slots=8" for host in hosts]
    return WAYS[way].format(
        lines="\n".join(lines),
        echoes="".join(f"echo '{line}' >> hostfile\n" for line in lines),
        prints="".join(f"  echo {line}\n" for line in lines),
        puts="".join(f"put {host} 8\n" for host in hosts),
        escaped="\\n".join(lines),
        hosts=" ".join(hosts),
        pairs=" ".join(f"{host} 8" for host in hosts),
    )


def told(texts):
    """The rules that are broken, and how."""
    return sorted({(one.check, one.verdict, one.message.partition("listed in")[0]) for one in judged(texts)})


@pytest.mark.parametrize("way", WAYS)
@given(hosts=HOSTS)
@settings(max_examples=12, deadline=None)
def test_a_hostfile_is_judged_alike_however_it_is_written(way, hosts):
    """As one that lies there: its hosts, their slots, one that is listed twice, the address of rank 0."""
    lines = "".join(f"{host} slots=8\n" for host in hosts)
    own = {"start.sh": written(way, hosts) + START}
    assert told(own) == told({"start.sh": START, "hostfile": lines})
    assert [(one.name, one.slots.value) for one in read_texts(own).hostfiles[0].hosts] == [(host, 8) for host in hosts]


@pytest.mark.parametrize("way", WAYS)
def test_what_is_read_is_what_bash_writes(way, tmp_path):
    """Line by line."""
    text = written(way, ["gpu01", "gpu02"])
    subprocess.run(["bash", "-c", text], cwd=tmp_path, check=False, capture_output=True)
    files = read_script(text, "start.sh").files
    assert files.text_of("hostfile") == (tmp_path / "hostfile").read_text().rstrip("\n")
    assert files.text_of("hostfile").split("\n") == LINES


def test_each_host_is_shown_where_the_script_writes_it():
    """There is no file to look at."""
    (found,) = (
        one
        for one in judged({"a.sh": "cat > hostfile <<EOF\na slots=8\nb slots=4\na slots=8\nEOF\n" + START})
        if one.check == "launch.hostfile_names_a_host_once"
    )
    assert [(where.file, where.line) for where in found.where] == [("a.sh", 2), ("a.sh", 4)]


@pytest.mark.parametrize(
    "text",
    [
        "scontrol show hostnames $SLURM_NODELIST > hostfile\n",
        "scontrol show hostnames | sed 's/$/ slots=8/' > hostfile\n",
        "for h in $(cat nodes); do echo $h slots=8; done > hostfile\n",
        "while read h; do echo $h slots=8; done < nodes > hostfile\n",
        "while read h; do echo gpu01 slots=8 >> hostfile; done < nodes\n",
        "echo $HOST slots=8 > hostfile\n",
        "echo ${HOST:-gpu01} slots=8 > hostfile\n",
        'if [ -n "$1" ]; then echo gpu01 slots=8 > hostfile; fi\n',
        "[ -f hostfile ] || echo gpu01 slots=8 > hostfile\n",
        "echo gpu01 slots=8 > hostfile\nsed -i s/8/4/ hostfile\n",
        "echo gpu01 slots=8 > hostfile\nsort -u hostfile -o hostfile\n",
        "echo gpu01 slots=8 > hostfile\ncp other hostfile\n",
        "echo gpu01 slots=8 > hostfile\n./add.sh >> hostfile\n",
        "echo gpu01 slots=8 > hostfile\npython more.py --out hostfile\n",
        "echo gpu01 slots=8 > hostfile\npython more.py --out=./hostfile\n",
        "echo gpu01 slots=8 > hostfile\nbash more.sh hostfile\n",
        "echo gpu01 slots=8 > hostfile\nvim hostfile\n",
        "echo gpu01 slots=8 | sort > hostfile\n",
        "printf '%-9s slots=8\\n' gpu01 > hostfile\n",
        "ssh gpu01 'echo gpu01 slots=8 > hostfile'\n",
        "echo gpu01 slots=8 > hostfile\necho gpu02 slots=8 > hostfile\n",
        "echo gpu01 slots=8 > hostfile\ncd /elsewhere\n",
    ],
)
def test_what_is_not_known_for_certain_is_not_judged(text):
    """What another program prints, what may run any number of times, what is changed afterwards."""
    assert read_script(text, "a.sh").files.text_of("hostfile") is None
    assert read_texts({"a.sh": text + START}).hostfiles == ()


@pytest.mark.parametrize(
    "line", ["cat hostfile", "/usr/bin/wc -l hostfile", "nohup deepspeed --hostfile=hostfile a.py", "touch hostfile"]
)
def test_what_only_reads_a_file_leaves_it_known(line):
    """It is shown, counted, or given to a launcher."""
    text = f"echo gpu01 slots=8 > hostfile\n{line}\n"
    assert read_script(text, "a.sh").files.text_of("hostfile") == "gpu01 slots=8"


def test_a_loop_reads_the_hosts_that_the_script_has_written():
    """As from a file that is given: three are waited for, and two are started."""
    text = (
        "printf '%s\\n' gpu01 gpu02 > nodes\ni=0\nwhile read -r h; do\n"
        "  ssh -n $h torchrun --nnodes=3 --node_rank=$i --nproc_per_node=8 --master_addr=gpu01 t.py &\n"
        "  i=$((i+1))\ndone < nodes\nwait\n"
    )
    assert rules({"a.sh": text}) == ["every_node_is_started"]
    assert rules({"a.sh": text.split("\n", 1)[1]}) == []


def test_a_file_of_many_lines_is_read_so_far():
    """A loop cannot fill the memory."""
    text = "for a in {1..64}; do for b in {1..64}; do for c in {1..64}; do echo $a$b$c; done; done; done > hostfile\n"
    assert read_script(text, "a.sh").files.text_of("hostfile") is None
