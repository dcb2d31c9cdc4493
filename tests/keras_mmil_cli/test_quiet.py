"""What is hidden of the log of TensorFlow, and how warnings are printed."""

import os
import subprocess
import sys
import warnings
from argparse import Namespace

import pytest

from keras_mmil_cli.quiet import plain_warnings, tensorflow_log_hidden

LOGGED = """\
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1795445096.959166    8391 port.cc:153] oneDNN custom operations are on.
To enable the following instructions: AVX2 FMA, rebuild TensorFlow.
E0000 00:00:1795445100.216544    8391 cuda_platform.cc:52] failed call to cuInit
"""


def write_to_stderr(text):
    os.write(2, text.encode())  # as native code does


def test_only_the_log_is_hidden(capfd):
    with tensorflow_log_hidden():
        write_to_stderr(LOGGED + "F0000 00:00:1795445100.2 8391 cpu.cc:1] no AVX\nUserWarning: x\n")
    write_to_stderr("I0000 00:00:17 later\n")
    assert capfd.readouterr().err == (
        "F0000 00:00:1795445100.2 8391 cpu.cc:1] no AVX\nUserWarning: x\nI0000 00:00:17 later\n"
    )


def fail():
    write_to_stderr(LOGGED)
    raise ImportError("no TensorFlow")


def test_nothing_is_hidden_of_an_import_that_fails(capfd):
    with pytest.raises(ImportError, match="no TensorFlow"), tensorflow_log_hidden():
        fail()
    assert capfd.readouterr().err == LOGGED


def test_what_native_code_says_before_it_aborts_is_shown():
    program = """
import os
from keras_mmil_cli.quiet import plain_warnings, tensorflow_log_hidden
with tensorflow_log_hidden():
    os.write(2, b"I0000 00:00:17 log\\nterminate called: no AVX\\n")
    os.abort()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode < 0
    assert done.stderr == "I0000 00:00:17 log\nterminate called: no AVX\n"


def test_warnings_are_lines_of_the_program():
    before = warnings.formatwarning
    about = UserWarning("'a' is odd."), UserWarning, "file.py", 3
    with plain_warnings(Namespace(debug=False)):
        assert warnings.formatwarning(*about) == "keras-mmil: warning: 'a' is odd.\n"
    with plain_warnings(Namespace(debug=True)):
        assert warnings.formatwarning(*about) == before(*about)
    assert warnings.formatwarning is before
