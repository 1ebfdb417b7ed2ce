"""Test the configuration of a department's hub."""

import asyncio
import importlib
import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from jupyter_client.manager import KernelManager
from jupyter_server.services.kernels.kernelmanager import MappingKernelManager
from tests.support.commands import completed
from tests.support.needs import need, need_module
from tests.support.nonempty import each
from tests.support.paths import ROOT
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

HUB = ROOT / "deploy" / "jupyterhub"


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a course's folder as a hub's users see it, with a server that only reports its start."""
    course = tmp_path / "course"
    for folder in ("lessons", "docs"):
        shutil.copytree(ROOT / folder, course / folder)
    shutil.copy(ROOT / "start.ipynb", course)
    (course / "lessons" / "predictions.json").write_text("{}")
    (course / ".venv" / "bin").mkdir(parents=True)
    server = course / ".venv" / "bin" / "jupyterhub-singleuser"
    server.write_text(
        '#!/bin/sh\necho "started $* in $PWD, umask $(umask), sockets in $JUPYTER_RUNTIME_DIR,'
        ' settings in $JUPYTER_CONFIG_PATH"\n'
    )
    server.chmod(0o755)
    monkeypatch.setenv("TCPLAB_COURSE", str(course))
    monkeypatch.setenv("TCPLAB_INSTRUMENT", str(tmp_path / "run" / "instrument"))
    monkeypatch.setenv("TCPLAB_EXCHANGE", str(tmp_path / "exchange"))
    return course


@pytest.fixture
def home() -> Iterator[Path]:
    """Make a home whose path has the usual length, since a socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def hub_config() -> Config:
    return PyFileConfigLoader("jupyterhub_config.py", path=str(HUB)).load_config()


def start_server(home: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Start a learner's server as the hub does."""
    return completed(
        [*hub_config().Spawner.cmd, *options], env=os.environ | {"HOME": str(home)} | environment
    )


# ---- the configuration ---------------------------------------------------------------------------


@pytest.mark.usefixtures("course")
def test_settings_exist_in_jupyterhub() -> None:
    hub = need_module("jupyterhub.app", "jupyterhub")
    config = hub_config()
    for owner in (hub.JupyterHub, hub.Authenticator, hub.Spawner):
        settings = config[owner.__name__]
        assert settings
        assert set(settings) <= set(owner.class_traits(config=True)), owner.__name__
    lab_app = importlib.import_module("jupyterlab.labapp").LabApp
    known = {
        "LabApp": lab_app,
        "KernelManager": KernelManager,
        "MappingKernelManager": MappingKernelManager,
    }
    for argument in each(config.Spawner.args):
        owner, setting = argument.removeprefix("--").partition("=")[0].split(".")
        assert setting in known[owner].class_traits(config=True), argument


@pytest.mark.usefixtures("course")
def test_systemd_units_have_limits() -> None:
    need("systemctl")  # the spawner asks for its version
    spawners = need_module("systemdspawner", "jupyterhub-systemdspawner")
    config = hub_config()
    traits = set(spawners.SystemdSpawner.class_traits(config=True))
    assert set(config.SystemdSpawner) | set(config.Spawner) <= traits
    # The spawner refuses a value of the wrong type.
    user = SimpleNamespace(name="ada", id=1, url="/user/ada/", settings={})
    spawner = spawners.SystemdSpawner(config=config, user=user)
    assert (spawner.mem_limit, spawner.cpu_limit) == (2**30, None)
    assert spawner.isolate_tmp
    assert spawner.isolate_devices
    assert spawner.disable_user_sudo
    assert all(isinstance(value, str) for value in spawner.unit_extra_properties.values())
    assert Path(spawner.cmd[0]).samefile(HUB / "start-server")


def kubernetes_values() -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((HUB / "values.yaml").read_text())
    return values


def test_settings_exist_in_kubespawner() -> None:
    kube = need_module("kubespawner", "jupyterhub-kubespawner")
    hub = kubernetes_values()["hub"]["config"]
    assert set(hub["KubeSpawner"]) <= set(kube.KubeSpawner.class_traits(config=True))


def test_pod_starts_like_a_local_server(course: Path, home: Path) -> None:
    values = kubernetes_values()["singleuser"]
    environment = values["extraEnv"]
    # Files outside the volume disappear with the pod.
    assert environment["HOME"] == values["storage"]["homeMountPath"]
    # The Dockerfile says where the course is in the image.
    dockerfile = (ROOT / "deploy/container/Dockerfile").read_text()
    folder = environment["TCPLAB_COURSE"]
    assert f"WORKDIR {folder}\n" in dockerfile
    assert f"--create-home --shell /bin/bash {Path(environment['HOME']).name}" in dockerfile
    assert environment["PATH"].startswith(f"{folder}/.venv/bin:")
    command = ROOT / Path(values["cmd"]).relative_to(folder)
    done = completed(
        [command],
        env={"HOME": str(home), "PATH": environment["PATH"], "TCPLAB_COURSE": str(course)},
        check=True,
    )
    assert done.stdout.startswith(f"started  in {home}/tcplab")
    assert values["defaultUrl"] == "/lab/tree/start.ipynb"
    assert (home / "tcplab" / "lessons").is_dir()
    assert "limit" not in values["cpu"]


def test_servers_get_the_paths_of_the_lock_and_the_exchange(course: Path, tmp_path: Path) -> None:
    environment = hub_config().Spawner.environment
    assert environment["PATH"].startswith(f"{course}/.venv/bin:")
    for name in ("TCPLAB_INSTRUMENT", "TCPLAB_EXCHANGE"):
        shared = Path(environment[name])
        assert shared.is_relative_to(tmp_path)
        assert shared.stat().st_mode & 0o7777 == 0o1777
    (folder,) = environment["JUPYTER_CONFIG_PATH"].split(":")
    nbgrader = PyFileConfigLoader("nbgrader_config.py", path=folder).load_config()
    assert nbgrader.Exchange.root == environment["TCPLAB_EXCHANGE"]
    graded_as = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()
    assert nbgrader.CourseDirectory.course_id == graded_as.CourseDirectory.course_id


@pytest.mark.usefixtures("course")
def test_starts_wait_for_a_turn_and_none_is_refused() -> None:
    config = hub_config()
    assert config.JupyterHub.concurrent_spawn_limit == 0
    most = 2 * (os.cpu_count() or 1)
    spawners = [SimpleNamespace(pending="spawn") for _ in range(most + 1)]

    async def begin() -> list[bool]:
        waits = [asyncio.ensure_future(config.Spawner.pre_spawn_hook(each)) for each in spawners]
        await asyncio.wait(waits[:most])
        before = waits[most].done()
        spawners[0].pending = None  # its server answers
        await asyncio.wait_for(waits[most], 10)
        return [before, waits[most].done()]

    assert asyncio.run(begin()) == [False, True]


@pytest.mark.parametrize("secret", ["solutions", ".git"])
def test_hub_refuses_to_start_if_solutions_are_readable(course: Path, secret: str) -> None:
    (course / secret).mkdir(mode=0o755)
    with pytest.raises(SystemExit, match=f"chmod 700 {course}/{secret}"):
        hub_config()
    (course / secret).chmod(0o700)
    assert hub_config()


@pytest.mark.usefixtures("course")
def test_lessons_are_copied_only_at_the_first_start(home: Path) -> None:
    # JupyterLab shows this folder, and nbgrader's list of assignments writes into it.
    started = f"started --port=1 in {home}/tcplab, umask 0077, sockets in {home}/.tcplab, "
    assert start_server(home, "--port=1").stdout.startswith(started)
    lessons = home / "tcplab" / "lessons"
    given = {path.name for path in lessons.iterdir()}
    assert {path.name for path in (ROOT / "lessons").glob("*.ipynb")} <= given
    assert "predictions.json" not in given
    assert (home / "tcplab").stat().st_mode & 0o077 == 0  # private
    lesson = next(lessons.glob("*-small-writes.ipynb"))
    lesson.write_text("my notes")
    next(lessons.glob("*-the-lab.ipynb")).unlink()
    start_server(home)
    assert lesson.read_text() == "my notes"
    assert not list(lessons.glob("*-the-lab.ipynb"))
    assert [path.name for path in home.iterdir()] == ["tcplab"]


@pytest.mark.usefixtures("course")
def test_start_page_links_only_to_existing_files_and_sets(home: Path) -> None:
    start_server(home)
    page = (home / "tcplab" / "start.ipynb").read_text()
    links = re.findall(r"\]\(([^)]+)\)", page)
    sets = {path.name for path in (ROOT / "exercises").iterdir()}
    fetched = {link for link in links if link.partition("/")[0] in sets}
    assert len(fetched) == len(sets)
    for link in each(set(links) - fetched):
        assert (home / "tcplab" / link).is_file(), link


@pytest.mark.usefixtures("course")
def test_only_learners_get_the_learner_settings(home: Path) -> None:
    def started() -> tuple[str, str]:
        shown = start_server(home, JUPYTER_CONFIG_PATH="the-hubs").stdout
        (folder,) = re.findall(r" in (\S+), umask", shown)
        return folder, shown.rstrip().rpartition("settings in ")[2]

    theirs = f"{os.environ['TCPLAB_COURSE']}/tools/learner:the-hubs"
    assert started() == (f"{home}/tcplab", theirs)
    (home / "course").mkdir()
    (home / "course" / "nbgrader_config.py").touch()
    for _again in range(2):
        assert started() == (f"{home}/course", "the-hubs")
    assert (home / "course" / "start.ipynb").is_file()
    assert (home / "course" / "lessons" / "00-primer.ipynb").is_file()


@pytest.mark.usefixtures("course")
def test_kernels_use_sockets_with_short_paths(home: Path) -> None:
    assert "--KernelManager.transport=ipc" in hub_config().Spawner.args

    def start(longer: int) -> subprocess.CompletedProcess[str]:
        place = home / ("x" * (longer - len(str(home)) - 1))
        place.mkdir()
        return start_server(place)

    fits = start(49)
    assert fits.returncode == 0
    runtime = fits.stdout.rpartition(", settings")[0].rpartition(" ")[2]
    # jupyter_client names sockets like this; sockaddr_un has room for 107 bytes and the final zero.
    assert len(f"{runtime}/kernel-{uuid.uuid4()}-ipc-1") <= 107
    too_long = start(50)
    assert too_long.returncode == 1
    assert too_long.stderr.startswith("start-server: the path of the home directory ")
    assert len(too_long.stderr.splitlines()) == 1
