"""Are exceptions read out of tracebacks that several ranks print at once?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose
from preflight.diagnose.found import Evidence
from preflight.diagnose.prefix import Line
from preflight.diagnose.tracebacks import Tracebacks

INTERLEAVED = """\
[rank0]: Traceback (most recent call last):
[rank1]: Traceback (most recent call last):
[rank0]:   File "/job/train.py", line 7, in <module>
[rank1]:   File "/job/train.py", line 9, in main
[rank1]:     raise Odd("b")
[rank0]:     raise Strange("a")
[rank1]:   File "/env/site-packages/lib.py", line 3, in call
[rank1]: lib.errors.Odd: b
[rank0]: Strange: a
"""


def test_interleaved_tracebacks_are_told_apart():
    """The first exception is the program's failure, with the line of the program, not of a library."""
    found = diagnose(INTERLEAVED.splitlines()).causes[0]
    assert found.cause.name == "program-error"
    assert "Odd: b (at /job/train.py:9, raised in /env/site-packages/lib.py:3)" in found.cause.meaning
    assert found.ranks == (1,)


def test_an_exception_of_the_table_is_not_unknown():
    """Its cause stands, and no second one beside it."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/job/a.py", line 1, in f',
        "OSError: [Errno 28] No space left on device",
    ]
    assert [finding.cause.name for finding in diagnose(lines).causes] == ["disk-full"]


def test_a_traceback_without_an_end_ends_with_the_file():
    """Nothing is made up of it."""
    lines = ["Traceback (most recent call last):", '  File "/job/a.py", line 1, in f', *(["    x"] * 900), "Late: no"]
    assert not diagnose(lines).has_failed


def test_an_exception_of_a_package_with_a_number_is_no_node():
    """Nor is one whose name is written small."""
    lines = ["Traceback (most recent call last):", '  File "/job/a.py", line 1, in f']
    for last in ("sqlite3.OperationalError: no such table", "cv2.error: OpenCV(4.9) bad argument"):
        found = diagnose([*lines, last]).causes[0]
        assert found.cause.name == "program-error"
        assert last.split(": ")[1] in found.cause.meaning


def test_what_a_rank_raises_while_it_is_interrupted_is_not_its_own():
    """It cleans up; the interruption is the cause."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/job/a.py", line 1, in f',
        "KeyboardInterrupt",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "/job/a.py", line 9, in train_epoch',
        "    loss = self.train_epoch(epoch)",
        "RuntimeError: release unlocked lock",
    ]
    assert [finding.cause.name for finding in diagnose(lines).causes] == ["ended-from-outside"]


def test_what_a_worker_of_a_loader_raised_is_named_itself():
    """And not only that it was caught."""
    lines = [
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "/job/a.py", line 1, in f',
        "[rank0]: ValueError: Caught ValueError in DataLoader worker process 0.",
        "[rank0]: Original Traceback (most recent call last):",
        '[rank0]:   File "/job/data.py", line 7, in get',
        "[rank0]: ValueError: Unknown modality: caption",
    ]
    assert "Unknown modality: caption (at /job/data.py:7)" in diagnose(lines).causes[0].cause.meaning


def test_a_statement_of_the_program_is_no_failure():
    """Only the line that ends the traceback is."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/job/a.py", line 1, in f',
        "    from huggingface_hub.utils._errors import RepositoryNotFoundError",
        "ModuleNotFoundError: No module named 'huggingface_hub.utils._errors'",
        "    from huggingface_hub.utils._errors import RepositoryNotFoundError",
    ]
    assert [finding.cause.name for finding in diagnose(lines).causes] == ["module-missing"]


BOOTSTRAP = '  File "/usr/lib/python3.10/threading.py", line 1016, in _bootstrap_inner'


def test_what_a_thread_raises_comes_after_what_the_program_does():
    """It alone is the cause only where nothing else is; the reader of a queue that was closed is none."""
    thread = ["Exception in thread Thread-1:", "Traceback (most recent call last):", BOOTSTRAP]
    alone = [*thread, '  File "/job/feed.py", line 3, in run', "ValueError: of the thread"]
    own = ["Traceback (most recent call last):", '  File "/job/a.py", line 1, in f', "RuntimeError: of the program"]
    closed = [*thread, '  File "/usr/lib/python3.10/multiprocessing/connection.py", line 136, in _check_closed']
    closed = [*closed, "OSError: handle is closed", "OSError: handle is closed"]
    assert "of the thread" in diagnose(alone).causes[0].cause.meaning
    assert "of the program" in diagnose([*alone, *own]).causes[0].cause.meaning
    assert not diagnose(closed).has_failed


def test_an_argument_that_the_program_forgot_is_its_own_mistake():
    """Between two libraries it tells that their versions do not fit."""
    last = "TypeError: generate_mask() missing 1 required positional argument: 'device'"
    for place, cause in (("/job/model.py", "program-error"), ("/env/site-packages/peft/model.py", "import-failed")):
        lines = ["Traceback (most recent call last):", f'  File "{place}", line 1, in f', last]
        assert [finding.cause.name for finding in diagnose(lines).causes] == [cause]


def raised(process: int, kind: str = "TypeError", line: int = 9) -> list[str]:
    """A traceback as Ray prefixes its lines."""
    lines = ("Traceback (most recent call last):", f'  File "/job/loop.py", line {line}, in turn', f"{kind}: no answer")
    return [f"(LoopWorker pid={process}) {text}" for text in lines]


def test_an_exception_that_one_process_raises_again_and_again_was_caught():
    """In whatever process: the same place of the program is meant. Told once or twice, it ended it."""
    again = raised(7) * 4 + raised(8)
    assert not diagnose(again).has_failed
    assert diagnose(raised(7) * 2 + raised(8)).causes[0].cause.name == "program-error"
    assert "KeyError" in diagnose([*again, *raised(8, "KeyError", 12)]).causes[0].cause.meaning


def test_tracebacks_of_processes_are_told_apart_by_their_number():
    """Where no line names a rank."""
    mixed = [line for pair in zip(raised(7, "OddError"), raised(8, "KeyError", 12), strict=True) for line in pair]
    assert "OddError: no answer (at /job/loop.py:9)" in diagnose(mixed).causes[0].cause.meaning


def test_a_message_that_goes_on_in_the_next_line_is_told_with_it():
    """As pydantic writes it."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/job/serve.py", line 3, in <module>',
        "pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "  Value error, the maximum length is greater than the model's",
        "    For further information visit a page",
    ]
    meaning = diagnose(lines).causes[0].cause.meaning
    assert "1 validation error for ModelConfig Value error, the maximum length" in meaning
    assert "further" not in meaning
    assert "step" not in diagnose([*lines[:3], "step 1 of it"]).causes[0].cause.meaning


REQUEST = [
    "Traceback (most recent call last):",
    '  File "/env/lib/python3.12/site-packages/uvicorn/protocols/http/httptools_impl.py", line 416, in run_asgi',
    '  File "/env/lib/python3.12/site-packages/vllm/renderers/params.py", line 418, in check',
    "vllm.exceptions.OddError: the prompt is too long",
]
SERVED = 'INFO:     127.0.0.1:34574 - "POST /v1/chat/completions HTTP/1.1" 200 OK'


def test_what_one_request_met_is_no_failure_of_a_server_that_answers_others():
    """Nor of one that ended in order; one that never answered anything has failed."""
    assert not diagnose([SERVED, *REQUEST]).has_failed
    assert not diagnose([*REQUEST, "INFO:     Application shutdown complete."]).has_failed
    assert diagnose(REQUEST).has_failed


def test_an_exception_that_followed_from_a_known_one_is_told_as_that_one():
    """Of a chain the first led to the others; without the words between them they are two."""
    first = [
        "Traceback (most recent call last):",
        '  File "/job/test.py", line 3, in check',
        "AssertionError: 19 is less than 20",
    ]
    between = ["", "During handling of the above exception, another exception occurred:", ""]
    then = [
        "Traceback (most recent call last):",
        '  File "/job/again.py", line 8, in retry',
        "Exception: no more retries",
    ]
    assert diagnose([*first, *between, *then]).causes[0].cause.name == "assertion"
    assert diagnose([*first, "", *then]).causes[0].cause.name == "program-error"


def ended_by(exception: str, *frames: str) -> list[str]:
    """The kinds of a traceback with these files that ends with an exception."""
    tracebacks = Tracebacks()
    tracebacks.begin("")
    lines = [*(f'  File "{file}", line {number}, in f' for number, file in enumerate(frames, 1)), exception]
    for number, text in enumerate(lines, 1):
        tracebacks.take("", Line(text), Evidence("log", number, text))
    return [one.kind for one in tracebacks.raised]


OTHERS = """
    ChildFailedError SystemExit KeyboardInterrupt CalledProcessError DistBackendError DistNetworkError DistStoreError
    ProcessRaisedException ProcessExitedException RayTaskError EngineDeadError BrokenPipeError SignalException
    GeneratorExit TimeoutExpired DistError CancelledError
"""


@pytest.mark.parametrize("kind", OTHERS.split())
def test_what_follows_from_another_ranks_end_is_no_failure_of_the_program(kind):
    """Of launchers, of torch.distributed, and what ends a program on purpose."""
    lines = ["Traceback (most recent call last):", '  File "/job/a.py", line 1, in f', f"lib.{kind}: odd words"]
    assert "program-error" not in [one.cause.name for one in diagnose([*lines, "more"]).causes]
    assert ended_by(f"lib.{kind}: odd words", "/job/a.py") == [kind]


@pytest.mark.parametrize(
    ("file", "is_of_request"),
    [
        *((f"/env/site-packages/{name}/x.py", True) for name in ("uvicorn/protocols", "starlette", "fastapi", "flask")),
        *((f"/env/site-packages/{name}.py", True) for name in ("aiohttp/web_app", "werkzeug/serving", "tornado/web")),
        ("/env/site-packages/uvicorn/main.py", False),
    ],
)
def test_an_exception_below_a_web_server_is_of_a_request(file, is_of_request):
    """The server goes on; where it starts itself it does not."""
    tracebacks = Tracebacks()
    tracebacks.begin("")
    for number, text in enumerate([f'  File "{file}", line 3, in f', '  File "/job/a.py", line 1, in g', "Odd: x"], 1):
        tracebacks.take("", Line(text), Evidence("log", number, text))
    (raised,) = tracebacks.raised
    assert (raised.is_of_request, raised.at) == (is_of_request, "/job/a.py:1")


@pytest.mark.parametrize(
    "file",
    ["/env/site-packages/x.py", "/usr/dist-packages/x.py", "/usr/lib/python3.11/x.py", "/src/torch/x.py", "<frozen x>"],
)
def test_a_library_is_no_place_of_the_program(file):
    """The innermost frame of the program itself is the place, the library's is told beside it."""
    tracebacks = Tracebacks()
    tracebacks.begin("")
    for number, text in enumerate(['  File "/job/a.py", line 1, in f', f'  File "{file}", line 3, in g', "Odd: x"], 1):
        tracebacks.take("", Line(text), Evidence("log", number, text))
    (raised,) = tracebacks.raised
    assert (raised.at, raised.inner) == ("/job/a.py:1", f"{file}:3")


@pytest.mark.parametrize(("between", "named"), [(0, []), (5, []), (6, ["program-error"])])
def test_an_exception_some_lines_after_an_interruption_is_one_of_its_own(between, named):
    """Its traceback begins within six lines of the interruption where a rank only cleans up."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/job/a.py", line 1, in f',
        "KeyboardInterrupt",
        *["cleaning up"] * between,
        "Traceback (most recent call last):",
        '  File "/job/a.py", line 9, in g',
        "    g()",
        "RuntimeError: release unlocked lock",
    ]
    tracebacks = Tracebacks()
    for number, text in enumerate(lines, 1):
        line, evidence = Line(text), Evidence("log", number, text)
        if text.startswith("Traceback"):
            tracebacks.begin(line.stream)
        elif line.stream in tracebacks.open:
            tracebacks.take(line.stream, line, evidence)
    assert ["program-error" for one in tracebacks.raised if one.kind == "RuntimeError"] == named


@pytest.mark.parametrize(("frames", "is_open"), [(400, True), (401, False)])
def test_a_traceback_that_never_ends_is_given_up(frames, is_open):
    """After more lines than any has: what follows is read as what it is."""
    tracebacks, line = Tracebacks(), Line("    more")
    tracebacks.begin(line.stream)
    for number in range(frames):
        assert tracebacks.take(line.stream, line, Evidence("log", number + 2, line.text)) is None
    assert (line.stream in tracebacks.open) is is_open
