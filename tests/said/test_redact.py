"""Are secrets hidden wherever they stand, and is nothing else?"""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.said.redact import HIDDEN, looks_like_a_key, without_secrets, words_without_secrets


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
    assert without_secrets("git clone ssh://git@host/x.git") == "git clone ssh://git@host/x.git"


def test_who_stands_alone_in_a_url_is_a_token():
    """A login of ssh and the mark of an image's content are none."""
    assert without_secrets("pip install git+https://abc@host/x") == f"pip install git+https://{HIDDEN}@host/x"
    assert without_secrets("https://abc:x-oauth-basic@host") == f"https://{HIDDEN}:{HIDDEN}@host"
    assert without_secrets("docker://image@sha256:abc") == "docker://image@sha256:abc"


SIGNS = ("=", "==")  # with spaces on both sides: what follows is the secret


@given(
    st.sampled_from(["HF_TOKEN=", "--api-key ", "DB_PASSWORD: "]),
    st.text("abcXYZ0189+/=_-.!$", min_size=1).filter(lambda text: text not in SIGNS),
)
def test_no_letter_of_a_secret_is_left(name, secret):
    """Whatever it is made of; hiding it twice changes nothing."""
    hidden = without_secrets(f"x {name}{secret} y")
    assert hidden == f"x {name}{HIDDEN} y"
    assert without_secrets(hidden) == hidden


KEY = "9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c"


SECRETS = [
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
    *((f"MY_{word}=xyzzysecret", "xyzzysecret") for word in (
        "TOKEN", "SECRET", "PASSWD", "PASSPHRASE", "PASS", "CREDENTIAL", "WEBHOOK", "PWD", "JWT", "PAT", "BEARER",
        "API_KEY", "ACCESS_KEY", "PRIVATE_KEY", "ACCOUNT_KEY", "AUTH_KEY", "SIGNING_KEY", "MASTER_KEY",
    )),
    ("https://h/x&sig=xyzzysecret", "xyzzysecret"),
    ("X-Some-Token xyz, x-some-key: xyzzysecret", "xyzzysecret"),
    ("aws configure set x.token xyzzysecret", "xyzzysecret"),
    ("DB_PASSWORD='correct xyzzysecret'", "xyzzysecret"),
    ('{"api_key":"xyzzysecret"}', "xyzzysecret"),
    (r"{\"api_key\":\"correct xyzzysecret\"}", "xyzzysecret"),
    ("--password 'correct xyzzysecret' x", "xyzzysecret"),
    ("['t.py', '--hf-token', 'xyzzysecret']", "xyzzysecret"),
    ("hf_token = xyzzysecret", "xyzzysecret"),
    ("'token' => 'xyzzysecret'", "xyzzysecret"),
    ("client_secret: |\n  correct\n  xyzzysecret\nnext: 1", "xyzzysecret"),
    ("setenv HF_TOKEN xyzzysecret", "xyzzysecret"),
    ("ENV HF_TOKEN xyzzysecret", "xyzzysecret"),
    ("MYSQL_PWD=xyzzysecret", "xyzzysecret"),
    ("AccountName=x;AccountKey=xyzzysecret==;x", "xyzzysecret"),
    ("redis://:xyzzysecret@h:6379/0", "xyzzysecret"),
    ("postgres://me:a/b@xyzzysecret@h/db", "xyzzysecret"),
    ("https://h/x?X-Amz-Signature=xyzzysecret&y", "xyzzysecret"),
    ("https://h/x#access_token=xyzzysecret", "xyzzysecret"),
    ("mysql -u me -pxyzzysecret db", "xyzzysecret"),
    ("curl --user me:xyzzysecret https://h", "xyzzysecret"),
    ("wandb login --relogin xyzzysecret", "xyzzysecret"),
    ("machine h login me password xyzzysecret", "xyzzysecret"),
    ("aws configure set aws_secret_access_key xyzzysecret", "xyzzysecret"),
    ("smbclient -U me%xyzzysecret //h/s", "xyzzysecret"),
    ("kubectl create secret generic x --from-literal=k=xyzzysecret", "xyzzysecret"),
    ("curl -H 'Authorization: Basic xyzzysecret'", "xyzzysecret"),
    ("saw bearer xyzzysecret in it", "xyzzysecret"),
    ("https://api.telegram.org/bot1:xyzzysecret/sendMessage", "xyzzysecret"),
    (f"WHATEVER={KEY}", KEY),
    (f"whatever='{KEY}'", KEY),
    *((text, "xyzzysecret") for text in (
        "--wandb_key=xyzzysecret", "KAGGLE_KEY=xyzzysecret", "AZURE_STORAGE_KEY=xyzzysecret", "CREDS=xyzzysecret",
        "REDISCLI_AUTH=xyzzysecret", "DBPASS=xyzzysecret", "USERPASS=xyzzysecret", "--hf.token xyzzysecret",
        '{"key": "xyzzysecret"}', "hf.token=xyzzysecret", "+trainer.wandb.api_key=xyzzysecret",
        "accountKey: xyzzysecret",
        "https://xyzzysecret@host/x", "SENTRY_DSN=https://xyzzysecret@host/1", "https://xyzzysecret:@host",
        "redis-cli -h h -a xyzzysecret ping", "Cookie: session=1; id=xyzzysecret", "env FOO_KEY=xyzzysecret x",
        "docker exec -e AUTH=xyzzysecret x", "DB_PASSWORD_2=xyzzysecret", "HF_TOKEN_PROD=xyzzysecret",
        "MYTOKEN=xyzzysecret",
        "- name: HF_TOKEN\n  value: xyzzysecret", '{"name":"HF_TOKEN","value":"xyzzysecret"}',
        "WANDB_API_KEY:xyzzysecret",
        "podman login -u me -p xyzzysecret h", "ipmitool -H h -U me -P xyzzysecret power", "LDAP_BIND_PW=xyzzysecret",
        "login failed with token: 1xyzzysecret", "PASSWORD='a'\\''xyzzysecret'", 'PASSWORD="a\\"xyzzysecret"',
    )),
    ("WANDB=local-8d0f1e2c3b4a59687f6e5d4c3b2a1908", "8d0f1e2c"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "secret"), SECRETS)
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
        "docker run -e HF_TOKEN -e X=1 image",
        'PASSWORD="" x=1',
        "XFT_TOKEN_FILE",
        "http://proxy:3128/path@version",
        "OLDPWD=/root",
        "pattern=abc",
        "the all-reduce passes: 12 of 12",
        "--max-token 5",
        "--pad-token-id 0",
        "unexpected token: '('",
        "SyntaxError: Unexpected token: foo",
        "eos_token: </s>",
        "NCCL_IB_PKEY=0x8001",
        "data.prompt_key=prompt data.reward_fn_key=data_source",
        "topologyKey: kubernetes.io/hostname",
        '{"key": "run_stop"}',
        '"key": "nvidia.com/gpu"',
        "pass: 12, fail: 3",
        "auth: munge",
        "use_auth_token=True",
        "imagePullSecrets: regcred",
        "secretName: mine",
        "--password-stdin",
        "PasswordAuthentication=no",
        "--moe-token-dispatcher-type alltoall",
        "forward_pass: 12.3ms",
        "docker run --pwd /workspace",
        "Rank 0: waiting for key:store_based_barrier_key:1 with 16 nodes",
        "keys: /default_pg/0//cpu//0/0",
        "a daemon refused a credential: munge does not run there",
        "set WANDB_API_KEY (COMET_API_KEY) in the environment",
    ],
)
def test_what_a_job_is_made_of_is_shown(text):
    """Devices, interfaces, paths, images, names of runs and models."""
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    "unit",
    [
        "a", "token", "token= ", 'token="', "://a:", "://:a@", "mysql ", "curl -u ", "-token", "sshpass -p",
        "token\\",
        "token       ", "smbclient -U ", "docker login ", "aws configure set ", "env ", "X-", "?a-", "eyJ-",
        " --a", " -e ", "login a password ", "wandb login --a ", "token: |\n a\n",
        "-----BEGIN PRIVATE KEY-----", " --from-literal=a",
        "A_1=",
    ],
)  # fmt: skip
def test_what_it_costs_grows_with_the_text_alone(unit):
    """Of twice the text twice the time: what a node printed over and over is no reason to wait."""

    def seconds(length: int) -> float:
        text = (unit * length)[:length]
        begun = time.process_time()
        without_secrets(text)
        return time.process_time() - begun

    best = min(seconds(16_000) / max(seconds(2_000), 1e-4) for _ in range(3))
    assert best < 24  # 8 where it grows with the text, 64 where with its square


def test_the_rest_of_a_line_is_shown():
    """What stands beside a secret, and the quotes around it."""
    for text, shown in {
        """DB_PASSWORD="one two" x=1""": f"""DB_PASSWORD="{HIDDEN}" x=1""",
        '{"api_key":"one","x":1}': f'{{"api_key":"{HIDDEN}","x":1}}',
        "['--hf-token', 'one', '--lr', '1']": f"['--hf-token', '{HIDDEN}', '--lr', '1']",
        "secret: |\n  one\n  two\nnext: 1": f"secret: {HIDDEN}\nnext: 1",
        "curl -u me:one https://h": f"curl -u me:{HIDDEN} https://h",
        "https://hooks.slack.com/services/T0/B0/one x": f"https://hooks.slack.com/{HIDDEN} x",
        f"whatever={KEY} x": f"whatever={HIDDEN} x",
        "Authorization: Bearer one x": f"Authorization: Bearer {HIDDEN} x",
        "a bearer abcdefgh1 x": f"a bearer {HIDDEN} x",
    }.items():
        assert without_secrets(text) == shown
        assert without_secrets(shown) == shown


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("--notify", "https://h/one"), ("--notify", HIDDEN)),
        (("--notify=https://h/one",), (f"--notify={HIDDEN}",)),
        (("--preflight-notify", "https://h/one"), ("--preflight-notify", HIDDEN)),
        (("--notify=",), ("--notify=",)),
        (("--preflight-env", "MY_VAR=one two three four"), ("--preflight-env", f"MY_VAR={HIDDEN}")),
        (("--preflight-env=MY_VAR=one two three four",), (f"--preflight-env=MY_VAR={HIDDEN}",)),
        (("--env", "GPUS=GPU-5f3c9a1e-77b2-4c1d-9f00"), ("--env", f"GPUS={HIDDEN}")),
        (("--env", "NCCL_X=a b c"), ("--env", "NCCL_X=a b c")),
        (("--env", "DATA=/mnt/data/x"), ("--env", "DATA=/mnt/data/x")),
        (("--env", "D=XX"), ("--env", "D=XX")),
        (("/usr/bin/sshpass", "-p", "one", "ssh"), ("/usr/bin/sshpass", "-p", HIDDEN, "ssh")),
        (("sshpass", "-p", "one"), ("sshpass", "-p", HIDDEN)),
        (("ssh", "-p", "22", "h"), ("ssh", "-p", "22", "h")),
        (("redis-cli", "-h", "h", "-a", "one"), ("redis-cli", "-h", "h", "-a", HIDDEN)),
        (("--hf.token", "one"), ("--hf.token", HIDDEN)),
        (("--max-token", "5", "--pad-token-id", "0"), ("--max-token", "5", "--pad-token-id", "0")),
        (("--env", "AUTH=one"), ("--env", f"AUTH={HIDDEN}")),
        (("--env=OPENAI_KEY=one",), (f"--env=OPENAI_KEY={HIDDEN}",)),
        (("--wrap", "env FOO_KEY=one x"), ("--wrap", f"env FOO_KEY={HIDDEN} x")),
        (("sshpass", "-e", "-q", "22"), ("sshpass", "-e", "-q", "22")),
        (("-p", "22", "h"), ("-p", "22", "h")),
        (("secret", "word"), ("secret", "word")),
        (("---token", "word"), ("---token", "word")),
        (("--token", "one", "word"), ("--token", HIDDEN, "word")),
    ],
)
def test_words_of_a_command_line_are_hidden_one_by_one(words, shown):
    """The word behind the option, and no other."""
    assert words_without_secrets(words) == shown


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
        ("a1b2c3d4e5f6a7b8c9d0", True),
        ("a1b2c3d4e5f6a7b8c9d", False),
        (f'"{KEY}"', True),
        (f"'{KEY}'", True),
        (f"{KEY} and more", False),
        (f".{KEY}", False),
        (f"~{KEY}", False),
        (f"x/{KEY[:16]}/{KEY[16:]}", True),
        (f"x/y/{KEY[:16]}/{KEY[16:]}", False),
        (f"x.{KEY[:16]}.{KEY[16:]}", True),
        (f"x.y.{KEY[:16]}.{KEY[16:]}", False),
        (f"{KEY[:8]}-{KEY[8:12]}-{KEY[12:16]}-{KEY[16:20]}-{KEY[20:]}", True),
        (f"{KEY[:4]}-{KEY[4:8]}-{KEY[8:12]}-{KEY[12:16]}-{KEY[16:20]}-{KEY[20:]}", False),
        ("ababababab1212121212", False),
        ("abcdefghij1234567890", False),
        ("abcdefghijklmnopqrstuvwxyz", False),
        ("01234567899876543210", False),
        ("/home/me/9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c", False),
        ("'a1b2c3d4e5f6a7b8c9d0'", True),
        ("a1a1a1a1a1a1a1a1a1a1", False),  # two letters in turn
        ("abcdefghijklmnopqrst", False),  # no digit
        ("01234567890123456789", False),  # no letter
        ("~1b2c3d4e5f6a7b8c9d0", False),  # a path
        (".1b2c3d4e5f6a7b8c9d0", False),
        ("/1b2c3d4e5f6a7b8c9d0", False),
        ("qwertzuiopasdfgh2024", False),  # words and a year: one change
        ("abc1defghi2klmnopqrs", True),  # four changes, of a sixth of twenty letters
        ("abcdefgh1ijklmnopqr2", True),
        ("abcdefgh1ijklmnopqrs", False),
    ],
)
def test_a_key_is_long_and_without_order(value, is_key):
    """What people name and number is not."""
    assert looks_like_a_key(value) == is_key


@pytest.mark.parametrize(
    "name", ["TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "WEBHOOK", "PWD", "API_KEY", "JWT", "PAT", "BEARER"]
)
def test_a_name_is_enough(name):
    """Nothing of the value needs to look like a secret, nor any other word of the text."""
    assert without_secrets(f"MY_{name}=plain") == f"MY_{name}={HIDDEN}"
    assert without_secrets(f'my_{name.lower()}: "plain"') == f'my_{name.lower()}: "{HIDDEN}"'


@pytest.mark.parametrize("before", ["https://h/x?", "https://h/x#", "h/x&"])
def test_a_signature_in_a_query_is_hidden(before):
    """Behind whichever sign it stands."""
    assert without_secrets(f"{before}sig=plain") == f"{before}sig={HIDDEN}"
