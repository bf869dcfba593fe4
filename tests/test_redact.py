"""Are secrets hidden wherever they stand, and is nothing else?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.redact import HIDDEN, looks_like_a_key, without_secrets, words_without_secrets


def test_every_secret_of_a_line_is_hidden():
    """Tokens in variables and options, side by side."""
    hidden = without_secrets("HF_TOKEN=abc WANDB_API_KEY=def python t.py --hub_token ghi --lr 1 --token=jkl")
    assert not any(secret in hidden for secret in ("abc", "def", "ghi", "jkl"))
    assert "--lr 1" in hidden


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("HF_TOKEN=abc x", "HF_TOKEN=[hidden] x"),
        ("t.py --wandb-api-key abc --lr 1", "t.py --wandb-api-key [hidden] --lr 1"),
        ("--hub_token=abc", "--hub_token=[hidden]"),
        ("aws_secret_access_key: abc\nuse_cpu: false", "aws_secret_access_key: [hidden]\nuse_cpu: false"),
        ("HTTP_PROXY=http://me:abc@proxy:3128", "HTTP_PROXY=http://me:[hidden]@proxy:3128"),
        ("--tokenizer_path /m --max_tokens 512", "--tokenizer_path /m --max_tokens 512"),
        ("--rdzv_endpoint 10.0.0.1:29500", "--rdzv_endpoint 10.0.0.1:29500"),
    ],
)
def test_secrets_are_hidden_where_they_stand(text, shown):
    """By the names that people give them; what only looks like one is left."""
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tokenizer=fast --max-tokens=5 --tokens 9",
        "https://host:8080/path?a=b",
        "user@host:/data",
        "--password",
        "MY_SECRETARY",
    ],
)
def test_what_only_looks_like_a_secret_is_left(text):
    """A word that is counted, an address without a password, a name without a value."""
    assert without_secrets(text) == text


def test_a_secret_in_a_url_is_hidden_with_its_user_shown():
    """Whoever reads it still sees which account was meant."""
    assert without_secrets("git clone https://me:abc@host/x.git") == f"git clone https://me:{HIDDEN}@host/x.git"
    assert without_secrets("https://abc@host") == "https://abc@host"


@given(st.sampled_from(["HF_TOKEN=", "--api-key ", "DB_PASSWORD: "]), st.text("abcXYZ0189+/=_-.!$", min_size=1))
def test_no_letter_of_a_secret_is_left(name, secret):
    """Whatever it is made of; hiding it twice changes nothing."""
    hidden = without_secrets(f"x {name}{secret} y")
    assert hidden == f"x {name}{HIDDEN} y"
    assert without_secrets(hidden) == hidden


KEY = "9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("MY_PAT=ghp_0123456789abcdefABCDEF0123456789abcd python t.py", "0123456789abcdef"),
        ("export X=hf_AbCdEfGhIjKlMnOpQrStUvWx", "AbCdEf"),
        ("curl https://hooks.slack.com/services/T0AAA/B0BBB/xyzzysecret", "xyzzysecret"),
        ("notify https://discord.com/api/webhooks/123/xyzzysecret", "xyzzysecret"),
        ("https://x.webhook.office.com/webhookb2/xyzzysecret", "xyzzysecret"),
        ("https://open.feishu.cn/open-apis/bot/v2/hook/xyzzysecret", "xyzzysecret"),
        ("https://blob.example/x?sv=1&sig=xyzzysecret&se=2", "xyzzysecret"),
        ("sshpass -p xyzzysecret ssh node1", "xyzzysecret"),
        ("sshpass -pxyzzysecret ssh node1", "xyzzysecret"),
        ("docker login -u me -p xyzzysecret registry", "xyzzysecret"),
        ("docker exec -e DB_PASSWORD xyzzysecret x", "xyzzysecret"),
        ("docker exec -e DB_PASSWORD=xyzzysecret x", "xyzzysecret"),
        ("curl -u me:xyzzysecret https://h", "xyzzysecret"),
        ("curl -H 'Authorization: Bearer xyzzysecret' https://h", "xyzzysecret"),
        ("curl -H 'X-Api-Key: xyzzysecret'", "xyzzysecret"),
        ("PASS=xyzzysecret", "xyzzysecret"),
        ("DB_PASS=xyzzysecret", "xyzzysecret"),
        ("PET_RDZV_CONF=token=xyzzysecret", "xyzzysecret"),
        ("env API_KEY=xyzzysecret docker exec", "xyzzysecret"),
        ("-oSetEnv=ANY=xyzzysecret", "xyzzysecret"),
        ('{"api_key": "xyzzysecret"}', "xyzzysecret"),
        ("aws AKIAIOSFODNN7EXAMPLE", "IOSFODNN7"),
        ("xoxb-123456789012-abcdefABCDEF", "abcdefABCDEF"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl", "eyJzdWIi"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----", "b3BlbnNz"),
        (f"WHATEVER={KEY}", KEY),
        (f"whatever='{KEY}'", KEY),
        ("WANDB=local-8d0f1e2c3b4a59687f6e5d4c3b2a1908", "8d0f1e2c"),
    ],
)
def test_secrets_are_known_by_name_beginning_place_or_look(text, secret):
    """As people write them in commands, addresses and files."""
    assert secret not in without_secrets(text)
    assert HIDDEN in without_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "CUDA_VISIBLE_DEVICES=GPU-5f3c9a1e-77b2-4c1d-9f00-1a2b3c4d5e6f",
        "NCCL_SOCKET_IFNAME=eth0,eth1",
        "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1",
        "PATH=/usr/local/cuda-12.4/bin:/usr/bin",
        "DATA=/mnt/data/imagenet-2012/train-00000-of-01024",
        "IMAGE=nvcr.io/nvidia/pytorch:24.05-py3",
        "RUN_NAME=llama-3-8b-instruct-finetune-2024-05-01",
        "MODEL=meta-llama/Meta-Llama-3-8B-Instruct",
        "torchrun --nnodes=4 --nproc_per_node=8 --rdzv_id=20240501-120000 train.py",
        "--lr=3e-5 --betas=0.9,0.95",
        "bypass=1",
        "pattern=abc",
        "the all-reduce passes: 12 of 12",
    ],
)
def test_what_a_job_is_made_of_is_shown(text):
    """Devices, interfaces, paths, images, names of runs and models."""
    assert without_secrets(text) == text


def test_a_secret_may_be_the_next_word_of_a_command_line():
    """Of an option by its name, of --env by what it sets, of a wrapper."""
    words = (
        "preflight",
        "run",
        "--hf-token",
        "abc",
        "--env",
        "MY_VAR=zwxy plugh xyzzy",
        "--env=OTHER=plughplughplughplugh",
    )
    more = (
        "--env",
        "NCCL_DEBUG=INFO",
        "--env",
        "N=4",
        "--wrap",
        "env API_KEY=abc docker exec",
        "--ssh-option=-oSetEnv=A=b1",
    )
    assert words_without_secrets((*words, *more)) == (
        "preflight",
        "run",
        "--hf-token",
        HIDDEN,
        "--env",
        f"MY_VAR={HIDDEN}",
        f"--env=OTHER={HIDDEN}",
        "--env",
        "NCCL_DEBUG=INFO",
        "--env",
        "N=4",
        "--wrap",
        f"env API_KEY={HIDDEN} docker exec",
        f"--ssh-option=-oSetEnv=A={HIDDEN}",
    )


@pytest.mark.parametrize(
    ("value", "is_key"),
    [
        (KEY, True),
        ("dGhpcyBpcyBhIHRlc3Qga2V5IDEyMzQ1Njc4OTA=", True),
        ("a" * 40, False),
        ("0123456789" * 3, False),
        ("checkpoint-final-version-two", False),
        ("gpu-node-0123.cluster.example.org", False),
        ("short9A", False),
        ("/home/me/9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c", False),
    ],
)
def test_a_key_is_long_and_without_order(value, is_key):
    """What people name and number is not."""
    assert looks_like_a_key(value) == is_key
