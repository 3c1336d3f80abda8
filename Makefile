# Two commands need nothing but a Debian or Ubuntu: `make demo`, `make test`.
# CMake does the work; this file only names the usual ways to call it.

PREFIX       ?= /usr/local
BUILD        ?= build
JOBS         ?= $(shell nproc 2>/dev/null || echo 2)
# More tests than cores: many of them wait for ranks that wait.
TESTS        ?= $(shell expr $(JOBS) + 2)
FUZZ_SECONDS ?= 20
SECONDS      ?= 3600
CHECKS        = includes headers banned exports style docs switches environment

# Continuous integration treats warnings as errors and builds for one GPU;
# a user's build does not.
CONFIGURE = $(if $(CI),-DCORTADO_WERROR=ON -DCORTADO_CUDA_ARCHITECTURES=90)

# Its machines stand still now and then, and tests of real processes notice:
# there a test that fails has a second try, and the log shows both.
REPEAT = $(if $(CI),--repeat until-pass:2)

# With more tests than cores, threads that look for each other without a pause
# keep the core from the one they wait for.
test asan tsan: export OMP_WAIT_POLICY ?= passive

.PHONY: all demo test check install packages test-packages asan asan-build tsan \
    tsan-build inject valgrind fuzz fuzz-build random analyze gpu-bundle deb clean help
.NOTPARALLEL:

all:
	@cmake -S . -B $(BUILD) -G Ninja $(CONFIGURE) >$(BUILD).log || \
	    { cat $(BUILD).log; rm -f $(BUILD).log; \
	      echo "Missing packages? Try: make packages"; exit 1; }
	@rm -f $(BUILD).log
	@cmake --build $(BUILD) -j $(JOBS)

demo: packages all
	@BUILD=$(BUILD) examples/digits/demo.sh

test: test-packages all
	@ctest --test-dir $(BUILD) --output-on-failure -j $(TESTS) $(REPEAT)
	@$(MAKE) --no-print-directory check

check:
	@for c in $(CHECKS); do tools/check_$$c $(BUILD) || exit 1; done

install: all
	@cmake --install $(BUILD) --prefix $(PREFIX)

packages:
	@tools/install_packages

test-packages:
	@tools/install_packages --tests

asan-build:
	@tools/install_packages
	@cmake --preset asan $(CONFIGURE) >/dev/null
	@cmake --build build-asan -j $(JOBS)

asan: asan-build
	@ctest --preset asan -j $(TESTS) $(REPEAT) $(if $(SKIP),-E '$(SKIP)')

tsan-build:
	@tools/install_packages
	@cmake --preset tsan $(CONFIGURE) >/dev/null
	@cmake --build build-tsan -j $(JOBS) --target thread_tests

# A race that is seen once is there, whatever a second try says: any process
# that sees one leaves a report.
RACES = $(CURDIR)/build-tsan/races

tsan: export TSAN_OPTIONS := $(TSAN_OPTIONS):log_path=$(RACES)/of
tsan: tsan-build
	@rm -rf $(RACES) && mkdir $(RACES)
	@ctest --preset tsan -j $(TESTS) $(REPEAT) $(if $(SKIP),-E '$(SKIP)') && \
	    [ -z "$$(ls $(RACES))" ] || { cat $(RACES)/* 2>/dev/null; exit 1; }

inject:
	@tools/install_packages
	@cmake --preset asan $(CONFIGURE) >/dev/null
	@cmake --build build-asan -j $(JOBS) --target cortado_inject
	@seq $(JOBS) | xargs -P $(JOBS) -I K tests/inject/run build-asan all K/$(JOBS)

valgrind:
	@tools/install_packages valgrind
	@cmake --preset debug >/dev/null
	@cmake --build build-debug -j $(JOBS)
	@tools/run_valgrind build-debug

analyze: all
	@tools/install_packages clang-tidy cppcheck
	@tools/analyze $(BUILD)

fuzz-build:
	@tools/install_packages clang
	@tools/run_fuzz build-fuzz 0

fuzz:
	@tools/install_packages clang
	@tools/run_fuzz build-fuzz $(FUZZ_SECONDS)

random: all
	@tests/random/run $(BUILD) --seed=$$(date +%s) --seconds=$(SECONDS) --jobs=2

gpu-bundle:
	@cmake -S . -B build-gpu -G Ninja -DCORTADO_CUDA=ON \
	    -DCORTADO_CUDA_ARCHITECTURES=90 >/dev/null
	@cmake --build build-gpu -j $(JOBS)
	@tools/gpu_bundle build-gpu build-gpu/gpu.tar.xz

deb:
	@tools/install_packages debhelper dh-python lintian
	@tools/make_deb build-deb

clean:
	rm -rf build build-debug build-release build-asan build-tsan build-cuda \
	    build-fuzz build-gpu build-deb

help:
	@echo "make            build $(BUILD)/cortado, the library and the tests"
	@echo "make demo       install what is missing, build, train a digit net"
	@echo "make test       install what is missing, build, run every test"
	@echo "make check      only the checks of includes, headers, style, links"
	@echo "make install    into PREFIX=$(PREFIX)"
	@echo "make packages   install the Debian/Ubuntu packages that are missing"
	@echo "make asan       the tests under address and undefined sanitizers"
	@echo "make tsan       the tests of rooms with threads, under the thread sanitizer"
	@echo "make inject     every allocation and file operation fails once"
	@echo "make valgrind   the tests under valgrind"
	@echo "make analyze    gcc's analyzer, clang-tidy and cppcheck, some minutes"
	@echo "make fuzz       each fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS)"
	@echo "make random     nets drawn at random, for SECONDS=$(SECONDS)"
	@echo "make gpu-bundle  program and tests for a machine with a GPU"
	@echo "make deb        Debian packages, into build-deb"
	@echo "make clean      remove the build folders"
