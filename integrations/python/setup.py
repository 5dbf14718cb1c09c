"""Builds the programs of the checkout that this folder is in, and puts them into the package. In a copy that
`make install`, a Debian package or a release archive holds, it takes the programs from there, or from the PATH.

VERBATIM_PROGRAMS=DIRECTORY takes the `run` and `export` in there instead. A wheel holds programs, so that it is
for one kind of machine; VERBATIM_PLATFORM names it, manylinux2014_x86_64 for static programs.
"""
import atexit
import os
import pathlib
import re
import shutil
import subprocess
import sysconfig
import tempfile

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # an older setuptools has it from the package wheel
    from wheel.bdist_wheel import bdist_wheel

here = pathlib.Path(__file__).resolve().parent
checkout = here.parent.parent
is_checkout = (checkout / "session" / "options.h").exists()


def installed():
    """The folder of the installed programs: PREFIX/bin of PREFIX/share/verbatim/integrations/python, or the PATH's."""
    found = shutil.which("verbatim", path=os.pathsep.join([str(here.parents[3] / "bin"), os.environ.get("PATH", "")]))
    if not found:
        raise SystemExit("verbatim-lm needs a checkout of verbatim, or an installed one on the PATH")
    return pathlib.Path(found).resolve().parent


def version():
    if is_checkout:
        header = (checkout / "session" / "options.h").read_text()
        return re.search(r'#define VERBATIM_VERSION "(.*)"', header).group(1)
    said = subprocess.run([installed() / "verbatim", "--version"], capture_output=True, text=True, check=True)
    return said.stdout.split()[1]


def files():
    """What becomes a part of the package, by its names there. Programs are built if need be."""
    given = os.environ.get("VERBATIM_PROGRAMS")
    if not is_checkout:
        folder = installed()
        programs = [folder / "verbatim", folder / "verbatim-export"]
        stories = folder.parent / "share" / "verbatim" / "stories.bin"
    else:
        if given:
            folder = pathlib.Path(given)
        else:
            jobs, build = len(os.sched_getaffinity(0)), build_folder()
            subprocess.run(["make", "-s", f"-j{jobs}", f"BUILD={build}", "run", "export"], cwd=checkout, check=True)
            folder = checkout / build
        programs = [folder / "run", folder / "export"]
        stories = checkout / "models" / "stories.bin"
    documents = None if is_checkout else installed().parent / "share" / "doc" / "verbatim"
    # NOTICES: the licences of libraries that static programs hold.
    texts = {
        "LICENSE": (documents or checkout) / "LICENSE",
        "NOTICES": (documents or pathlib.Path(given or checkout)) / "NOTICES",
    }
    return {
        "bin/verbatim": programs[0],
        "bin/verbatim-export": programs[1],
        "models/stories.bin": stories,
        **{name: text for name, text in texts.items() if text.exists()},
    }


def scratch():
    """A folder for what setuptools writes beside this file where that cannot be written to, removed at the end."""
    place = tempfile.mkdtemp(prefix="verbatim-setup-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def build_folder():
    """Where programs are built: in the checkout, as `make` does, or beside it where it cannot be written to."""
    return "build" if os.access(checkout, os.W_OK) else f"{scratch()}/build"


def options():
    if os.access(here, os.W_OK):
        return {}
    place = scratch()
    return {"egg_info": {"egg_base": place}, "build": {"build_base": place}}


class Build(build_py):
    def run(self):
        super().run()
        package = pathlib.Path(self.build_lib) / "verbatim_lm"
        taken = files()
        if self.editable_mode:  # the package finds the programs of its checkout
            return
        for folder in ("bin", "models"):
            shutil.rmtree(package / folder, ignore_errors=True)
            (package / folder).mkdir(parents=True)
        for name, source in taken.items():
            shutil.copy2(source, package / name)
        for path in package.rglob("*"):  # not what the checkout's umask made of them: a wheel holds modes
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)


class Wheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        platform = os.environ.get("VERBATIM_PLATFORM") or sysconfig.get_platform()
        return "py3", "none", re.sub("[-.]", "_", platform)


class Programs(Distribution):
    def has_ext_modules(self):
        return True


setup(options=options(), version=version(), distclass=Programs, cmdclass={"build_py": Build, "bdist_wheel": Wheel})
