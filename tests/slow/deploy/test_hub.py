"""A small class uses a real JupyterHub, and users of one machine cannot reach each other's work."""

import csv
import json
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import websocket
from tests.support.commands import completed
from tests.support.grading.homework import HandIn, hand_ins
from tests.support.lifetime import until
from tests.support.needs import need_module, needs_proxy, needs_root
from tests.support.ordinary_user import Run, let_in
from tests.support.paths import ROOT

from tcplab.lab import Loopback
from tcplab.programs.pair import held_port

LIMIT_S = 300
NEIGHBOUR = 65533
OPEN = """
import contextlib
from tcplab import Lab
lab = Lab(rtt_ms=10)
recording = contextlib.ExitStack()
capture = recording.enter_context(lab.client.capture(snaplen=2048))
print("made", flush=True)
"""
TALK = """
with lab.server.socket() as listener, lab.client.socket() as client:
    listener.bind((lab.server.address, 7777))
    listener.listen()
    client.connect((lab.server.address, 7777))
    accepted, _ = listener.accept()
    with accepted:
        for _ in range(50):
            client.sendall(secret)
            assert accepted.recv(len(secret)) == secret
"""
LOOK = """
with lab:
    recording.close()
    data = capture.path.read_bytes()
    print(capture.drops, [word for word in secrets if word in data])
"""
#: Try to open what a process has under /proc, to take its input, trace it and enter its namespaces,
#: to capture on the machine's interfaces, and to read the files in folders. Print what succeeded.
INTRUDER = """
import ctypes, json, os, subprocess, sys
from pathlib import Path
libc = ctypes.CDLL(None)

def succeeds(*command):
    return subprocess.run(command, capture_output=True).returncode == 0

def opened(pid):
    for part in ("environ", "mem", "fd", "root", "cwd", "ns/user", "ns/net", "ns/mnt", "ns/pid"):
        try:
            os.close(os.open(f"/proc/{pid}/{part}", os.O_RDONLY))
        except OSError:
            continue
        yield part
    process = libc.syscall(434, pid, 0)  # pidfd_open(2)
    if libc.syscall(438, process, 0, 0) != -1:  # pidfd_getfd(2)
        yield "descriptor"
    libc.close(process)
    if succeeds("nsenter", f"--target={pid}", "--user", "--net", "--preserve-credentials", "true"):
        yield "nsenter"
    if libc.ptrace(0x4206, pid, None, None) == 0:  # PTRACE_SEIZE
        yield "trace"

neighbours = {}
for entry in Path("/proc").glob("[0-9]*"):
    status = (entry / "status").read_text() if entry.exists() else ""
    if f"Uid:\\t{sys.argv[1]}\\t" in status:
        neighbours[status.split()[1]] = list(opened(int(entry.name)))
ready = ["unshare", "--user", "--net", "sh", "-c", "echo; exec sleep 60"]
with subprocess.Popen(ready, stdout=subprocess.PIPE) as child:
    child.stdout.read(1)
    own = list(opened(child.pid))
    child.kill()
sniff = (sys.executable, "-c", "import socket as s; s.socket(s.AF_PACKET, s.SOCK_RAW)")
if succeeds("unshare", "--user", "--net", "--map-root-user", *sniff):
    own.append("capture")
neighbours["the machine"] = ["capture"] if succeeds(*sniff) else []
readable = {}
for top in sys.argv[2:]:
    files = (Path(folder, name) for folder, _, names in os.walk(top) for name in names)
    readable[top] = [str(file) for file in files if file.is_file() and os.access(file, os.R_OK)][:9]
print(json.dumps([neighbours, own, readable]))
"""


def check_intrusion(found: str, *, own_folder: str = "") -> None:
    """Check that an intruder reached only things of the intruder's own."""
    neighbours, own, readable = json.loads(found)
    assert "lab_init" in neighbours
    assert set(map(tuple, neighbours.values())) == {()}, neighbours
    # The same attempts succeed on the intruder's own child and files.
    expected = {"environ", "mem", "fd", "ns/net", "descriptor", "nsenter", "trace", "capture"}
    assert expected <= set(own)
    assert [top for top, files in readable.items() if files] == [own_folder] * bool(own_folder), (
        readable
    )


@needs_root
def test_a_laboratory_is_closed_to_other_users(as_ordinary_user: Run) -> None:
    user = str(NEIGHBOUR)
    become = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--bounding-set=-all"]
    with subprocess.Popen(
        [*let_in(ROOT, Path(sys.base_prefix)), *become, sys.executable, "-c", f"{OPEN}input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "HOME": "/", "TMPDIR": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
    ) as laboratory:
        assert laboratory.stdout is not None
        assert laboratory.stdout.readline() == b"made\n"
        done = as_ordinary_user(["python", "-c", INTRUDER, user])
        laboratory.communicate(b"\n")
    check_intrusion(done.stdout)


# ---- a hub and its users -------------------------------------------------------------------------

#: Run the hub. When the test ends, even by SIGKILL, stop the hub and remove its users and files.
KEEPER = """
"$@" & hub=$!
cat >/dev/null
kill $hub
wait $hub
for name in $HUB_USERS; do
    while pkill -KILL --runstates D,R,S,T -U "$name"; do sleep 0.1; done
    userdel --force "$name"
done
rm -r "$HUB_FOLDER"
"""


@contextmanager
def running_hub(names: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Run a hub for these users; yield its address and its folder, which has their homes."""
    folder = Path(tempfile.mkdtemp(prefix="tcplab-hub-", dir="/tmp"))  # a home's path must be short
    folder.chmod(0o755)
    with ExitStack() as stack:
        machine = stack.enter_context(Loopback()).server
        port, api_port, hub_port = (stack.enter_context(held_port(machine)) for _ in range(3))
        url = f"http://127.0.0.1:{port}"
        environment = {
            "HUB_USERS": " ".join(names),
            "HUB_FOLDER": str(folder),
            "TCPLAB_COURSE": str(folder / "course"),
            "TCPLAB_INSTRUMENT": str(folder / "instrument"),
            "TCPLAB_EXCHANGE": str(folder / "exchange"),
            "TCPLAB_HUB_URL": url,
            "TCPLAB_HUB_SPAWNER": "localprocess",
        }
        options = [
            f"--config={ROOT / 'deploy/jupyterhub/jupyterhub_config.py'}",
            f"--JupyterHub.hub_port={hub_port}",
            f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{api_port}",
        ]
        hub = [sys.executable, "-m", "jupyterhub", *options]
        log = folder / "hub.log"
        output = stack.enter_context(log.open("wb"))
        # At the end, Popen closes the keeper's input and waits for the keeper.
        stack.enter_context(
            subprocess.Popen(
                [*let_in(ROOT, Path(sys.base_prefix)), "sh", "-c", KEEPER, "sh", *hub],
                cwd=folder,
                env=os.environ | environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        )
        stack.callback(lambda: print(log.read_text()[-20_000:]))
        for part in ("lessons", "docs", "tools"):
            shutil.copytree(ROOT / part, folder / "course" / part)
        shutil.copy(ROOT / "start.ipynb", folder / "course")
        (folder / "course" / ".venv").symlink_to(sys.prefix)
        until(lambda: "JupyterHub is now running" in log.read_text(), LIMIT_S)
        yield url, folder


class Person:
    """A new user of the machine, in a browser."""

    def __init__(self, url: str, name: str, home: Path) -> None:
        self.url, self.name, self.home = url, name, home
        self.password = secrets.token_urlsafe()
        self.base = f"/user/{name}/"
        self.browser = requests.Session()
        self.kernels: dict[str, websocket.WebSocket] = {}
        completed(["useradd", "--home-dir", home, "--shell", "/bin/bash", name], check=True)
        completed(["chpasswd"], input=f"{name}:{self.password}\n", check=True)
        self.uid = pwd.getpwnam(name).pw_uid
        home.mkdir()
        home.chmod(0o755)  # only the hub's own rules keep other users out
        shutil.chown(home, name, name)

    def send(self, method: str, path: str, mode: str = "cors", **options: Any) -> requests.Response:
        """Send a request as a page of the hub or of this person's server does."""
        scope = self.base if path.startswith(self.base) else "/hub/"
        token = self.browser.cookies.get("_xsrf", "", path=scope) or ""
        headers = {"X-XSRFToken": token, "Sec-Fetch-Mode": mode, "Sec-Fetch-Site": "same-origin"}
        address = self.url + path
        answer = self.browser.request(method, address, headers=headers, timeout=LIMIT_S, **options)
        assert answer.ok, (method, answer.url, answer.status_code, answer.text[:2000])
        return answer

    def log_in(self) -> None:
        """Log in by name and password, and wait for JupyterLab."""
        self.send("GET", "/hub/login", "navigate")
        token = self.browser.cookies["_xsrf"]
        form = {"username": self.name, "password": self.password, "_xsrf": token}
        assert "/hub/login" not in self.send("POST", "/hub/login", "navigate", data=form).url
        events = self.send("GET", f"/hub/api/users/{self.name}/server/progress").text
        assert '"ready": true' in events, events
        page = self.send("GET", f"{self.base}lab", "navigate")
        assert page.url.startswith(self.url + self.base)

    def close(self) -> None:
        """Close all pages."""
        for channel in self.kernels.values():
            channel.close()
        self.browser.close()

    def ask(self, method: str, path: str, **options: Any) -> Any:
        """Send a request to this person's server; return the JSON of its answer."""
        return self.send(method, self.base + path, **options).json()

    def open_kernel(self, path: str) -> websocket.WebSocket:
        """Open a notebook and return the connection to its kernel."""
        body = {"path": path, "name": path, "type": "notebook", "kernel": {"name": "python3"}}
        kernel = self.ask("POST", "api/sessions", json=body)["kernel"]["id"]
        address = f"{self.url}{self.base}api/kernels/{kernel}/channels"
        request = requests.Request("GET", address).prepare()
        cookie = requests.cookies.get_cookie_header(self.browser.cookies, request)
        address = address.replace("http", "ws", 1)
        return websocket.create_connection(address, cookie=cookie, origin=self.url, timeout=LIMIT_S)

    def run(self, path: str, source: str) -> str:
        """Run a cell in a notebook's kernel, and return its text. No error may come."""
        if path not in self.kernels:
            self.kernels[path] = self.open_kernel(path)
        header = {"msg_id": secrets.token_hex(), "msg_type": "execute_request", "version": "5.3"}
        message = {"header": header, "parent_header": {}, "metadata": {}, "channel": "shell"}
        message["content"] = {"code": source, "silent": False}
        self.kernels[path].send(json.dumps(message))
        text = ""
        while True:
            answer = json.loads(self.kernels[path].recv())
            if answer["parent_header"].get("msg_id") != header["msg_id"]:
                continue
            kind, content = answer["msg_type"], answer["content"]
            assert kind != "error", f"{self.name}: {source}\n{text}{content['evalue']}"
            assert content.get("name") != "stderr", f"{self.name}: {source}\n{content['text']}"
            if kind == "status" and content["execution_state"] == "idle":
                return text
            text += content.get("text", "") + content.get("data", {}).get("text/plain", "")


# ---- what they do --------------------------------------------------------------------------------

RELEASE = """%%bash
exec 2>&1
nbgrader generate_assignment pipes && nbgrader release_assignment pipes
"""
GRADE = """%%bash
exec 2>&1
nbgrader collect pipes && tcplab grade pipes && nbgrader release_feedback pipes
"""


def take_lesson(learner: Person) -> None:
    """Run the first cells of the learner's copy of a lesson, which must find what it teaches."""
    (copy,) = learner.home.glob("tcplab/lessons/*-small-writes.ipynb")
    path = f"lessons/{copy.name}"
    lesson = learner.ask("GET", f"api/contents/{path}")["content"]
    sources = [cell["source"] for cell in lesson["cells"] if cell["cell_type"] == "code"]
    for source in sources[:5]:
        learner.run(path, source.replace("=None", '="skip"'))
    learner.run(path, "assert two.provenance['capture_drops'] == 0")
    learner.run(path, "assert two['default'].ms_per_message > 4 * two['writev'].ms_per_message")


def press(learner: Person, action: str, status: str) -> Any:
    """Press a button of the assignment list; return the entry, which must have this status."""
    about = {"course_id": "tcplab", "assignment_id": "pipes"}
    listed = learner.ask("POST", f"assignments/{action}", params=about)
    (entry,) = (entry for entry in listed["value"] if entry["status"] == status)
    return entry


def do_homework(learner: Person, hand_in: HandIn) -> None:
    """Fetch the assignment, write the answers, run all cells, and submit."""
    press(learner, "fetch", "fetched")
    page = "api/contents/pipes/pipes.ipynb"
    notebook = learner.ask("GET", page)["content"]
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        cell["source"] = hand_in.cells.get(name, cell["source"])
    learner.ask("PUT", page, json={"type": "notebook", "format": "json", "content": notebook})
    for name, text in hand_in.files.items():
        body = {"type": "file", "format": "text", "content": text}
        learner.ask("PUT", f"api/contents/pipes/{name}", json=body)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            learner.run("pipes/pipes.ipynb", cell["source"])
    press(learner, "submit", "submitted")


def fetch_feedback(learner: Person, hand_in: HandIn) -> None:
    """Check that the page that the learner gets has the learner's own score."""
    folder = press(learner, "fetch_feedback", "submitted")["submissions"][-1]["local_feedback_path"]
    page = learner.ask("GET", f"api/contents/{folder}/pipes.html")["content"]
    assert f"Score: {hand_in.score}" in page


def meet_neighbour(learners: Sequence[Person], exchange: Path, pool: ThreadPoolExecutor) -> None:
    """Let two learners use a laboratory each, and try to get at the other's work meanwhile."""
    words = {learner.name: f"<secret of {learner.name}>".encode() for learner in learners}
    others = dict(zip(learners, reversed(learners), strict=True))

    def all_run(source: Callable[[Person], str]) -> Iterator[str]:
        return pool.map(lambda learner: learner.run("neighbours.ipynb", source(learner)), learners)

    def intrude(learner: Person) -> str:
        tops = [str(top) for top in (learner.home, others[learner].home, exchange)]
        return f"import sys; sys.argv[1:] = {[str(others[learner].uid), *tops]}\n{INTRUDER}"

    assert [*all_run(lambda _: OPEN)] == ["made\n"] * 2
    assert [*all_run(lambda learner: f"secret = {words[learner.name]!r}\n{TALK}")] == [""] * 2
    for learner, found in zip(learners, all_run(intrude), strict=True):
        check_intrusion(found, own_folder=str(learner.home))
    seen = all_run(lambda _: f"secrets = {[*words.values()]}\n{LOOK}")
    assert [*seen] == [f"0 {[word]}\n" for word in words.values()]


@needs_root
@needs_proxy
@pytest.mark.timeout(900)
def test_a_small_class_on_a_hub() -> None:
    need_module("jupyterhub", "jupyterhub")
    names = [f"tcplab-{role}-{os.getpid()}" for role in ("ada", "bob", "teacher")]
    work = hand_ins(ROOT / "solutions" / "pipes", 2)
    with ExitStack() as stack:
        url, folder = stack.enter_context(running_hub(names))
        people = [stack.enter_context(closing(Person(url, name, folder / name))) for name in names]
        pool = stack.enter_context(ThreadPoolExecutor())
        *learners, teacher = people
        # deploy/jupyterhub/README.md says what root gives an instructor.
        office = teacher.home / "course"
        shutil.copytree(ROOT / "solutions", office / "solutions")
        shutil.copy(ROOT / "nbgrader_config.py", office)
        office.chmod(0o700)
        completed(["chown", "--recursive", f"{teacher.name}:", office], check=True)
        list(pool.map(Person.log_in, people))
        list(pool.map(take_lesson, learners))
        teacher.run("office.ipynb", RELEASE)
        list(pool.map(do_homework, learners, work))
        teacher.run("office.ipynb", GRADE)
        with (office / "reports" / "pipes" / "grades.csv").open() as table:
            scores = {row["student"]: float(row["score"]) for row in csv.DictReader(table)}
        assert scores == {
            learner.name: done.score for learner, done in zip(learners, work, strict=True)
        }
        assert work[0].score > work[1].score > 0
        list(pool.map(fetch_feedback, learners, work))
        meet_neighbour(learners, folder / "exchange" / "tcplab" / "inbound", pool)
    assert not folder.exists()
    assert not {user.pw_name for user in pwd.getpwall()} & set(names)
    uids = ",".join(str(person.uid) for person in people)
    assert completed(["pgrep", "--runstates", "D,R,S,T", "-U", uids]).stdout == ""
