"""The console script is the program."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import callweave
import pytest

SCRIPT = Path(sys.executable).with_name("callweave")


def run(*words, **options):
    return subprocess.run([SCRIPT, *words], capture_output=True, text=True, timeout=60, **options)


def test_it_knows_its_version():
    assert run("--version").stdout == f"callweave {callweave.__version__}\n"
    module = subprocess.run([sys.executable, "-m", "callweave", "--version"], capture_output=True, text=True)
    assert module.stdout == f"callweave {callweave.__version__}\n"


def test_exit_codes_are_those_of_the_program():
    assert run("repair", "-", input="{a: 1}").returncode == 0
    assert run("repair", "-", input="").returncode == 1
    wrong = run("no-such-command")
    assert wrong.returncode == 2 and "no-such-command" in wrong.stderr


def test_it_decodes():
    body = '{"choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    decoded = run("decode", input=body)
    assert decoded.stdout == callweave.decode(body, dialect="auto").to_json() + "\n"


def test_a_closed_pipe_is_no_error():
    command = f"'{SCRIPT}' --help | head -c 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.name == "nt", reason="signals are Unix's")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_gateway(number):
    words = [SCRIPT, "serve", "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        told = []
        for line in process.stdout:
            told.append(line)
            if re.search(r"127\.0\.0\.1:\d+", line):
                break
        process.send_signal(number)
        process.communicate(timeout=30)
        assert process.returncode in (0, -number, 128 + number), told
    finally:
        process.kill()


@pytest.mark.skipif(os.name == "nt", reason="signals are Unix's")
def test_ctrl_c_ends_a_command_that_waits():
    process = subprocess.Popen([SCRIPT, "decode", "--as", "text"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        process.stdin.write(b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n')
        process.stdin.flush()
        assert process.stdout.read(2) == b"Hi"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == -signal.SIGINT
    finally:
        process.kill()
        process.communicate()
