"""Builds the programs of the checkout that this folder is in, and puts them into the package.

VERBATIM_PROGRAMS=DIRECTORY takes the `run` and `export` in there instead. A wheel holds programs, so that it is
for one kind of machine; VERBATIM_PLATFORM names it, manylinux2014_x86_64 for static programs.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sysconfig

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # an older setuptools has it from the package wheel
    from wheel.bdist_wheel import bdist_wheel

here = pathlib.Path(__file__).resolve().parent
checkout = here.parent.parent


def version():
    header = checkout / "session" / "options.h"
    if not header.exists():
        raise SystemExit("verbatim-lm is built in a checkout of verbatim: pip install ./integrations/python")
    return re.search(r'#define VERBATIM_VERSION "(.*)"', header.read_text()).group(1)


def programs():
    """The folder of the programs, built if need be."""
    given = os.environ.get("VERBATIM_PROGRAMS")
    if given:
        return pathlib.Path(given)
    jobs = len(os.sched_getaffinity(0))
    subprocess.run(["make", "-s", f"-j{jobs}", "run", "export"], cwd=checkout, check=True)
    return checkout / "build"


class Build(build_py):
    def run(self):
        super().run()
        package = pathlib.Path(self.build_lib) / "verbatim_lm"
        if self.editable_mode:  # the package finds the programs of its checkout
            programs()
            return
        for folder in ("bin", "models"):
            shutil.rmtree(package / folder, ignore_errors=True)
            (package / folder).mkdir(parents=True)
        built = programs()
        for name, source in (("verbatim", "run"), ("verbatim-export", "export")):
            shutil.copy2(built / source, package / "bin" / name)
        shutil.copy2(checkout / "models" / "stories.bin", package / "models" / "stories.bin")
        shutil.copy2(checkout / "LICENSE", package / "LICENSE")


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


setup(version=version(), distclass=Programs, cmdclass={"build_py": Build, "bdist_wheel": Wheel})
