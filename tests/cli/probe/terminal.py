"""onecard probe under a real terminal. `python3 terminal.py CASE ONECARD`: exit 0 when the case holds.

Each case opens a pseudo-terminal, makes it the controlling terminal of a new session and types into it.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time

CASE, ONECARD = sys.argv[1:3]
FOLDER = tempfile.mkdtemp()
os.chdir(FOLDER)


class Terminal:
    def __init__(self, command, rows=30, columns=100):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # SIGINT may be ignored where tests run; a terminal's shell has it as usual.
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
                signal.signal(number, signal.SIG_DFL)
            os.environ.update(PS1="$ ", TERM="xterm")
            os.execvp(command[0], command)
        self.size(rows, columns)
        self.seen = b""

    def size(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, data):
        os.write(self.fd, data)

    def read(self, seconds):
        """What comes within so many seconds, or until the end."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.fd], [], [], left)[0]:
                try:
                    data = os.read(self.fd, 65536)
                except OSError:
                    return False
                if not data:
                    return False
                self.seen += data
        return True

    def until(self, text, seconds=15):
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, f"`{text}` never came, only {self.seen!r}"
            if not self.read(0.05) and text not in self.seen:
                raise AssertionError(f"ended without `{text}`: {self.seen!r}")
        at = self.seen.index(text) + len(text)
        before, self.seen = self.seen[:at], self.seen[at:]
        return before

    def end(self, seconds=20):
        """Everything to the end, and the status as a shell tells it."""
        end = time.monotonic() + seconds
        while self.read(0.2):
            assert time.monotonic() < end, f"it never ended: {self.seen!r}"
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return self.seen, code


def probe(*command, flags=("-q",)):
    return [ONECARD, *flags, "probe", "--", *command]


def python(code):
    return [sys.executable, "-c", code]


def same_bytes():
    """Bars, colours, both streams on one terminal: byte for byte, and the program sees the same terminal."""
    code = (
        "import os, sys, time\n"
        "print([os.isatty(n) for n in range(3)], os.get_terminal_size(1), os.get_terminal_size(2))\n"
        "for i in range(40):\n"
        "    sys.stderr.write(f'\\r{i:3d}%|####| {i}/40'); sys.stderr.flush()\n"
        "    if i % 5 == 0: print(f'\\n{{loss: {i}}} \\033[31mred\\033[0m', flush=True)\n"
        "    time.sleep(0.002)\n"
        "sys.stderr.write('\\n\\ttab end'); sys.exit(3)\n"
    )
    bare = Terminal(python(code)).end()
    probed = Terminal(probe(*python(code))).end()
    assert bare[1] == 3 and b"columns=100, lines=30" in bare[0], bare
    assert probed == bare, f"\n{bare}\n{probed}"


def same_settings():
    """The terminal is never put into another mode; the program may read and set it through its stdin."""
    script = "stty -a; stty -echo; stty -a | grep -o -- '-echo '; stty echo; echo done"
    terminal = Terminal(["bash", "--norc", "-c", f"stty -a; {ONECARD} -q probe -- sh -c \"{script}\"; stty -a"])
    text, _ = terminal.end()
    blocks = re.findall(rb"speed .*?(?=speed |-echo |$)", text, re.S)
    first, inner, last = (blocks[i].split(b"done")[0].split() for i in (0, 1, -1))
    assert first == inner == last, text


def one_interrupt():
    code = (
        "import signal, sys, time\n"
        "n = 0\n"
        "def count(*_):\n"
        "    global n; n += 1\n"
        "signal.signal(signal.SIGINT, count)\n"
        "print('ready', flush=True); time.sleep(0.2)\n"
        "end = time.monotonic() + 1.2\n"
        "while time.monotonic() < end: time.sleep(0.05)\n"
        "print('interrupts', n, flush=True); sys.exit(4)\n"
    )
    terminal = Terminal(probe(*python(code)))
    terminal.until(b"ready")
    time.sleep(0.3)
    terminal.type(b"\x03")
    text, code = terminal.end()
    assert b"interrupts 1\r\n" in text and code == 4, (text, code)


def interrupt_kills_as_bare():
    """The status of a Ctrl-C, and a shell's loop stops as it does without us."""
    terminal = Terminal(["bash", "--norc", "-c", f"for i in 1 2; do {ONECARD} -q probe -- sh -c 'echo ready $0; sleep 9' $i; done; echo after"])
    terminal.until(b"ready 1")
    time.sleep(0.3)
    terminal.type(b"\x03")
    text, code = terminal.end()
    assert b"ready 2" not in text and b"after" not in text, text
    assert code in (130, -2), code


def stop_and_continue():
    terminal = Terminal(["bash", "--norc", "-i"])
    terminal.until(b"$ ")
    script = "i=0; while [ $i -lt 30 ]; do echo tick $i; sleep 0.1; i=$((i+1)); done; exit 6"
    terminal.type(f"{ONECARD} -q probe -- sh -c '{script}'\n".encode())
    terminal.until(b"tick 3")
    terminal.type(b"\x1a")
    terminal.until(b"Stopped")
    terminal.until(b"$ ")
    time.sleep(0.6)
    terminal.seen = b""
    terminal.read(0.6)
    assert b"tick" not in terminal.seen, terminal.seen
    terminal.type(b"fg\n")
    terminal.until(b"tick 29")
    terminal.type(b"echo status $?\n")
    terminal.until(b"status 6")
    terminal.type(b"exit\n")
    document = open("onecard-probe.json").read()
    assert '"pauses"' in document, document


def job_kill_is_one_signal():
    terminal = Terminal(["bash", "--norc", "-i"])
    terminal.until(b"$ ")
    script = "n=0; trap \"n=\\$((n+1))\" TERM; echo ready; i=0; while [ $i -lt 12 ]; do sleep 0.1; i=$((i+1)); done; echo terms $n"
    terminal.type(f"{ONECARD} -q probe -- sh -c '{script}' &\n".encode())
    terminal.until(b"$ ready")
    time.sleep(0.2)
    terminal.type(b"kill %1\n")
    terminal.until(b"terms 1")


def resize():
    # It is the notice that must bring the new size: the program looks at its terminal only then. The first notice
    # may come before the inner terminal has the new size; another follows then.
    code = (
        "import os, signal, time\n"
        "sizes = []\n"
        "def look(*_): sizes.append(os.get_terminal_size(1).columns); print('size', sizes[-1], flush=True)\n"
        "signal.signal(signal.SIGWINCH, look)\n"
        "print('ready', flush=True)\n"
        "end = time.monotonic() + 12\n"
        "while 77 not in sizes and time.monotonic() < end: time.sleep(0.05)\n"
    )
    terminal = Terminal(probe(*python(code)))
    terminal.until(b"ready")
    terminal.size(40, 77)
    text, code = terminal.end()
    assert b"size 77" in text and code == 0, text


def prompt():
    code = "name = input('name? '); import getpass; word = getpass.getpass('word? '); print('got', name, word)"
    terminal = Terminal(probe(*python(code)))
    terminal.until(b"name? ")
    terminal.type(b"ann\n")
    terminal.until(b"word? ")
    time.sleep(0.2)
    terminal.type(b"secret\n")
    text, code = terminal.end()
    assert b"got ann secret" in text and text.count(b"secret") == 1 and code == 0, text


def killed_onecard():
    """The program goes on writing to the terminal when onecard is killed."""
    script = "echo ready; sleep 0.8; echo after; echo finished > finished; sleep 0.2"
    terminal = Terminal(["bash", "--norc", "-c", f"{ONECARD} -q probe -- sh -c '{script}' & wait $!; sleep 1.5; echo shell done"])
    terminal.until(b"ready")
    os.system("pkill -9 -x onecard -P %d" % terminal.pid)
    text, _ = terminal.end()
    assert b"after" in text and os.path.exists("finished"), text


def live_line():
    """Drawn when the cursor is at the beginning of a line, wiped before the next byte, never inside a line."""
    script = "echo one; sleep 2.6; printf two; sleep 2.2; echo three"
    terminal = Terminal(probe("sh", "-c", script, flags=("--color", "never")))
    text, code = terminal.end()
    child = text.split(b"probe\r\n")[0]
    pieces = re.findall(rb"\r\x1b\[K([^\r\x1b]*)", child)
    assert any(b" s" in piece for piece in pieces), text
    assert b"two" + b"three" in child, text
    # What stands on the screen at the end is the child's output alone.
    screen = re.sub(rb"[^\r\n]*\r\x1b\[K", b"", child)
    assert screen == b"one\r\ntwothree\r\n", screen
    quiet, _ = Terminal(probe("sh", "-c", script)).end()
    assert quiet == b"one\r\ntwothree\r\n", quiet


def live_line_of_a_busy_program():
    """Below each line that a chatty program ends, and gone before its next byte."""
    script = "i=0; while [ $i -lt 25 ]; do echo line $i; sleep 0.1; i=$((i+1)); done; printf half; sleep 0.2; echo ' line'"
    terminal = Terminal(probe("sh", "-c", script, flags=("--color", "never")))
    text, code = terminal.end()
    child = text.split(b"probe\r\n")[0]
    drawn = re.findall(rb"\n\r\x1b\[K([^\r\x1b]+)\r\x1b\[K", child)
    assert drawn, text
    screen = re.sub(rb"[^\r\n]*\r\x1b\[K", b"", child)
    expected = b"".join(b"line %d\r\n" % i for i in range(25)) + b"half line\r\n"
    assert screen == expected, screen


def curses_programs():
    """Curses sets the terminal by its stdout and reads keys from its stdin: one key, no line end, no echo."""
    code = (
        "import curses, sys\n"
        "def run(screen):\n"
        "    screen.addstr(2, 4, 'press'); screen.refresh()\n"
        "    return screen.getkey()\n"
        "key = curses.wrapper(run)\n"
        "print('key', key, flush=True)\n"
        "print('line', input(), flush=True)\n"
    )
    terminal = Terminal(probe(*python(code)))
    terminal.until(b"press")
    time.sleep(0.3)
    terminal.type(b"x")
    before = terminal.until(b"key x")
    assert b"\nx" not in before.split(b"press")[-1], before
    # Afterwards lines are lines again, with their echo.
    time.sleep(0.3)
    terminal.type(b"whole\n")
    text, code = terminal.end()
    assert text.count(b"whole") == 2 and code == 0, text


def as_a_notebook_runs_it():
    """A notebook's `!command` opens a terminal of its own that nobody types into, and keeps what it shows."""
    code = "import sys; print(sys.stdout.isatty()); [print('\\r%d%%' % i, end='', flush=True) for i in range(0, 101, 5)]; print(); sys.exit(5)"
    shown = []
    for command in (python(code), probe(*python(code))):
        os.environ.update(TERM="dumb", PAGER="cat")
        shown.append(Terminal(["sh", "-c", " ".join("'%s'" % part.replace("'", "'\\''") for part in command)], 24, 80).end())
    assert shown[0][1] == 5 and shown[0] == shown[1], shown


def only_stderr_is_a_terminal():
    code = "import os, sys; print(os.isatty(1)); print(os.isatty(2), file=sys.stderr)"
    terminal = Terminal(["sh", "-c", f"{ONECARD} -q probe -- {sys.executable} -c '{code}' > out; cat out"])
    text, _ = terminal.end()
    assert text == b"True\r\nFalse\r\n", text


def hangup():
    """The terminal goes away: the program gets its SIGHUP and may finish."""
    script = "trap \"echo hup > hup\" HUP; echo ready; i=0; while [ $i -lt 20 ]; do sleep 0.1; i=$((i+1)); done; echo end > end"
    terminal = Terminal(probe("sh", "-c", script))
    terminal.until(b"ready")
    time.sleep(0.2)
    os.close(terminal.fd)
    end = time.monotonic() + 10
    while not os.path.exists("end") and time.monotonic() < end:
        time.sleep(0.05)
    assert os.path.exists("hup") and os.path.exists("end"), os.listdir(".")


globals()[CASE]()
