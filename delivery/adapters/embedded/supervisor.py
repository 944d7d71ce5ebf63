"""Run the server for as long as its owner lives.

Started as a script of its own, with the standard library only. Standard input is a pipe whose other end
only the owner holds: its end is the owner's end, however that came, and the server then gets a fast
shutdown. Should this process itself be killed, Linux signals the server (parent-death signal).

Signals to stop are not obeyed: they reach a whole terminal or unit, and the owner still needs its database to
finish its work. Only the end of the pipe counts.

Why: a parent-death signal in the server itself follows the *thread* that started it, so a server started
from a worker thread would be shut down when that thread ends; and macOS has no such signal. A pipe ends
with its process on every system. This process has one thread, so the signal is sound between it and the
server; and it forks in a small, fresh interpreter, where running code between fork and exec is safe.
"""

import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

#: Seconds a fast shutdown may take; then the server quits at once, and recovers at its next start.
FAST_SHUTDOWN_SECONDS = 45.0

#: All that the server sees of an environment.
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}

#: Signals that end a wait here, and do no more.
WAKING = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> int:
    """Run `argv[4:]` as user `argv[1]` and group `argv[2]` (-1: unchanged); then remove folder `argv[3]`."""
    uid, gid, folder, command = int(argv[1]), int(argv[2]), argv[3], argv[4:]
    wake, prctl, parent = _wake_on_signals(), _prctl(), os.getpid()
    # Held back until the copy has its own answer to them: one that comes in between must not get lost.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, WAKING)
    child = os.fork()
    if child == 0:
        try:
            _become(uid, gid)
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            prctl(PR_SET_PDEATHSIG, signal.SIGINT)  # a change of user clears it, so it comes after
            if os.getppid() == parent:
                os.execve(command[0], command, ENVIRONMENT)  # noqa: S606 - absolute, ours, no shell
        except BaseException as error:  # nothing may run on in the copy
            os.write(2, f"FATAL:  cannot run {command[0]}: {error}\n".encode())
        os._exit(127)
    signal.pthread_sigmask(signal.SIG_SETMASK, held)
    code = _watch(child, wake)
    if folder:
        with suppress(OSError):  # in use or gone: the next start copes with both
            os.rmdir(folder)
    return code


def _become(uid: int, gid: int) -> None:
    """Turn the copy into what the server expects: its user, no input, untouched signals."""
    signal.set_wakeup_fd(-1)
    for number in (*WAKING, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
        signal.signal(number, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def _wake_on_signals() -> int:
    """Let signals end a wait, and do nothing else; returns the descriptor to wait on."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in WAKING:
        signal.signal(number, lambda *_: None)
    return reading


def _prctl() -> Callable[[int, int], object]:
    if sys.platform == "linux":
        with suppress(ImportError):  # an interpreter built without it: only the pipe guards then
            import ctypes

            call: Callable[[int, int], object] = ctypes.CDLL(None).prctl
            return call
    return lambda _option, _value: None


def _watch(child: int, wake: int) -> int:
    """Wait for the server's end, shutting it down when the owner is gone; returns its exit code."""
    owner, watched = 0, [0, wake]
    patience: float | None = None
    while True:
        ready, _, _ = select.select(watched, [], [], patience)
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return abs(os.waitstatus_to_exitcode(status))
        if wake in ready:
            os.read(wake, 512)
        if owner in ready:
            watched.remove(owner)
            patience = FAST_SHUTDOWN_SECONDS
            os.kill(child, signal.SIGINT)
        elif not ready:
            os.kill(child, signal.SIGQUIT)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
