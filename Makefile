# The commands of the project; `make help` lists them. Each does all the set-up it needs, and only what changed.

# An inherited CXX is not taken over: wrappers that link the C++ library statically break inside Python.
# `make CXX=g++-13 test` chooses a compiler, `make PYTHON=/path/to/python test` a Python that has torch 2.11.
ifneq ($(origin CXX),command line)
  override CXX :=
endif
export SPILLWAY_CXX := $(CXX)
export PYTHON
unexport CXX

.PHONY: help demo test test-long asan tsan bench setup clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 20

setup:  ## install what is missing, configure and build
	@tools/setup

demo:  ## train a ResNet and a GPT in a quarter of the memory they take, to the same bits
	@tools/setup && tools/demo

test:  ## every check and test that needs no patience
	@tools/setup && tools/run_tests

test-long:  ## the long versions of the tests, the sanitizers, and a clean install
	@tools/setup && tools/run_tests --long

asan:  ## the C++ tests under the address and undefined-behaviour sanitizers
	@tools/setup --preset asan && tools/run_tests --preset asan

tsan:  ## the C++ tests under the thread sanitizer
	@tools/setup --preset tsan && tools/run_tests --preset tsan

clean:  ## remove what was built (.venv stays: rm -r .venv removes that too)
	@rm -rf build
