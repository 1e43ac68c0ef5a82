"""Builds a wheel that carries libfusion: pip install ./client/python

libfusion is built by the Makefile of the repository, so what that needs must be there (make deps); build/ is used
where it has one already. From Python 3.11 on the module uses the limited API: one wheel serves all later versions.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
BUILD = os.path.join(ROOT, "build")
VERSION, SOVERSION = (re.search(rf"^{name} := (.*)$", open(os.path.join(ROOT, "Makefile"), encoding="utf-8").read(), re.M).group(1)
                      for name in ("VERSION", "SOVERSION"))
LIMITED = sys.version_info >= (3, 11)


class Build(build_ext):
    def run(self):
        subprocess.run(["make", "-s", "-C", ROOT, f"build/libfusion.so.{VERSION}"], check=True)
        super().run()
        package = os.path.join(HERE if self.inplace else self.build_lib, "fusion")
        shutil.copy(os.path.join(BUILD, f"libfusion.so.{VERSION}"), os.path.join(package, f"libfusion.so.{SOVERSION}"))
        for name in ("nn.py", "_core.pyi", "_rows.py", "_errors.py"):
            with open(os.path.join(package, name), "w", encoding="utf-8") as file:
                subprocess.run([sys.executable, os.path.join(HERE, "generate.py"), name], stdout=file, check=True)


core = Extension(
    "fusion._core", sorted(os.path.relpath(f, HERE) for f in glob.glob(os.path.join(HERE, "src", "*.c"))),
    include_dirs=[ROOT, os.path.join(BUILD, "include")], library_dirs=[BUILD], libraries=["fusion"],
    extra_compile_args=["-std=gnu11", "-fvisibility=hidden"], extra_link_args=["-Wl,-rpath,$ORIGIN"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED else [], py_limited_api=LIMITED)

setup(cmdclass={"build_ext": Build}, ext_modules=[core], options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {})
