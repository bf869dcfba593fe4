"""Is a program told that undoes what its launcher tells it, and one that does not left alone?"""

from __future__ import annotations

import pytest

from preflight.launch.rules.check import check_texts

START = "torchrun --nnodes={} --node_rank=0 --nproc_per_node=8 --master_addr=10.0.0.1 --master_port=29500 train.py\n"


def told(program, nodes=2):
    """How many findings there are about the program."""
    found, _ = check_texts({"a.sh": START.format(nodes), "train.py": f"import os\n{program}\n"})
    return sum(one.check == "launch.program_keeps_what_it_is_given" for one in found)


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        ("os.environ['MASTER_ADDR'] = 'localhost'", 1),
        ("def setup():\n    os.environ['MASTER_ADDR'] = '127.0.0.1'", 1),
        ("os.environ['MASTER_ADDR'] = '10.0.0.1'", 0),
        ("if 'MASTER_ADDR' not in os.environ:\n    os.environ['MASTER_ADDR'] = 'localhost'", 0),
        ("os.environ.setdefault('MASTER_ADDR', 'localhost')", 0),
        ("if __name__ == '__main__':\n    os.environ['MASTER_PORT'] = '12355'", 1),
        ("os.environ['MASTER_PORT'] = '29500'", 0),
        ("torch.cuda.set_device(dist.get_rank())", 1),
        ("rank = int(os.environ['RANK'])\ntorch.cuda.set_device(rank)", 1),
        ("rank = dist.get_rank() % torch.cuda.device_count()\ntorch.cuda.set_device(rank)", 0),
        ("torch.cuda.set_device(int(os.environ['LOCAL_RANK']))", 0),
        ("this is no Python", 0),
    ],
)
def test_a_constant_in_the_place_of_what_is_given_is_told(program, wanted):
    """What stands in a branch may be for another way to start."""
    assert told(program) == wanted


@pytest.mark.parametrize(
    ("url", "is_told"),
    [
        ("f'tcp://{a}:{p}'", True),
        ("'tcp://' + a + ':' + p", True),
        ("'tcp://{}:{}'.format(a, p)", True),
        ("'tcp://%s:%d' % (a, p)", True),
        ("'tcp://{host}:29500'.format(host=a)", True),
        ("f'tcp://[{a}]:{p}'", False),
        ("'tcp://' + '[' + a + ']:' + p", False),
        ("'env://'", False),
    ],
)
@pytest.mark.parametrize(("address", "is_ipv6"), [("fd00::1", True), ("10.0.0.1", False)])
def test_an_ipv6_address_has_brackets_however_the_url_is_made(url, is_told, address, is_ipv6):
    """torch takes what is behind the first colon for the port."""
    start = START.format(2).replace("10.0.0.1", address)
    found, _ = check_texts({"a.sh": start, "train.py": f"dist.init_process_group(init_method={url})\n"})
    of_program = [one for one in found if any(where.file == "train.py" and where.line == 1 for where in one.where)]
    assert ("launch.master_address_is_an_address" in {one.check for one in of_program}) is (is_told and is_ipv6)


def test_on_one_node_the_rank_is_a_device():
    """And rank 0 is at home; its port is the agent's all the same."""
    assert told("torch.cuda.set_device(dist.get_rank())", nodes=1) == 0
    assert told("os.environ['MASTER_ADDR'] = 'localhost'", nodes=1) == 0
    assert told("os.environ['MASTER_PORT'] = '12355'", nodes=1) == 1
