# fusiond. `make demo` and `make check` do everything on a fresh Debian 12; see README.md.
#
#   make            build into build/
#   make deps       install what is missing (says what)
#   make demo       the main job on a private daemon
#   make check      every test, of slow cases a slice by the count of commits (SLICE=1/30, SLICE=all); the last line counts
#   make check-long all slow cases, 10,000 random graphs of every operation (GRAPHS=, SEED=, STRATEGY=cpu|gpu) and as many as programs
#                   make them, OWN=500 of these with kernels of their own, hours
#   make check-ulp  the accuracy of every function over all 2^32 floats (ONLY=exp,log), 40 s of one core each
#   make check-faults engines that end at each stage of their work, in each way, under busy clients; each call for memory, descriptors, sockets fails
#   make check-sim  the daemon simulated, with what may go wrong (SEEDS=100000 SEED=1), as tests/sim/sim.h says
#   make check-aliasing  programs of views, copies and writes, by NumPy and by import fusion (PROGRAMS=10000, SEED=1)
#   make fuzz TARGET=plan SECONDS=600  coverage-guided fuzzing of one target of tests/fuzz (clang)
#   make check-leaks  each kind of call of import fusion so often: what grows in client and daemon (CALLS=1000000)
#   make mutants    bugs put in on purpose, one after the other: which tests find them (a table; some minutes)
#   make check-cache two daemons on one cache folder, killed while they build (KILLS=200); 500 damages to its files
#   make check-packages the packages in a fresh Debian of their own: installed, served, removed, purged (root, debootstrap, a mirror)
#   make check-nng  do the sockets of the installed nng lose operations, for which protocol/sp.c stands (ROUNDS=4000)
#   make check-anywhere, make release: check wherever people are; everything, recorded in docs/RELEASE-CHECK.md
#   make check-distros on Debian 12, 13 and sid: demo, tests and packages in fresh roots of them (RELEASE=trixie; root, mmdebstrap, a mirror)
#   make check-oclgrind  kernels under Oclgrind: invalid accesses, data races, unset values
#   make check-drivers   what runs on which OpenCL driver: the table of docs/drivers.md (root, mmdebstrap, a mirror)
#   make check-intel     on Intel's OpenCL for CPUs, the same bits as on the first driver
#   make python     the Python package into build/python (part of make where Python's headers are)
#   make bench      the benchmark; PEERS_PYTHON=... runs its peers beside it
#   make figures    fusion patterns, fused and not, into the table of docs/PERFORMANCE.md; BLOCK=gpu into that of a GPU
#   make bench-rows softmax, norms, variance and logsumexp over rows and columns, beside JAX and Inductor the same way
#   make lint       clang-tidy and cppcheck over all files
#   make install    DESTDIR= prefix=/usr/local
#   make install-python  the Python package, where $(PYTHON) looks below prefix (pythondir=)
#   make symbols    notes functions that are new in debian/*.symbols, with this version
#   make deb        Debian packages into build/deb, by debhelper, looked through by lintian
#   SANITIZE=address|thread  builds into build-address or build-thread
#
# Nobody edits a list: sources, kernels, patterns and tests are found by folder.

VERSION := 0.1.0
SOVERSION := 1

prefix ?= /usr/local
bindir ?= $(prefix)/bin
sbindir ?= $(prefix)/sbin
libdir ?= $(prefix)/lib
libexecdir ?= $(prefix)/libexec
includedir ?= $(prefix)/include
datadir ?= $(prefix)/share
mandir ?= $(datadir)/man
exampledir ?= $(datadir)/doc/libfusion-dev/examples
sysconfdir ?= /etc
unitdir ?= $(prefix)/lib/systemd/system
completiondir ?= $(prefix)/share/bash-completion/completions
userunitdir ?= $(prefix)/lib/systemd/user
sysusersdir ?= $(prefix)/lib/sysusers.d
tmpfilesdir ?= $(prefix)/lib/tmpfiles.d
# Where Python looks below this prefix: Debian's has dist-packages for that, with other numbers below /usr and /usr/local.
pythondir ?= $(shell $(PYTHON) -c 'import site, sys; lib = "$(prefix)/lib"; \
	print(next((d for d in site.getsitepackages() if d.startswith(lib)), lib + "/python%d.%d/site-packages" % sys.version_info[:2]))')

CC ?= gcc
# Sanitizers see as much at -O1, and half of what they compile is for them.
CFLAGS ?= $(if $(SANITIZE),-O1 -g1,-O2 -g)
PKGCONFIG ?= pkg-config
PYTHON ?= /usr/bin/python3
# Warnings are errors in our own checks; a newer compiler's stop nobody else.
WERROR ?= $(if $(filter tests check% lint,$(MAKECMDGOALS)),1)
# V=1 shows the commands.
V ?=
Q := $(if $(V),,@)
SAY := $(if $(V),:,echo)
SANITIZE ?=

B := build$(if $(SANITIZE),-$(SANITIZE))

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wundef \
	-Wwrite-strings -Wvla -Wpointer-arith -Wformat=2 $(if $(WERROR),-Werror)
# What clang says of rows that name some of their fields, and GCC does not.
WARNINGS += $(if $(findstring clang,$(shell $(CC) --version 2>/dev/null)),-Wno-missing-field-initializers)
comma := ,
SANITIZERS := $(if $(filter address,$(SANITIZE)),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined) \
	$(if $(filter fuzz,$(SANITIZE)),-fsanitize=address$(comma)undefined$(comma)fuzzer-no-link -fno-sanitize-recover=undefined) \
	$(if $(filter thread,$(SANITIZE)),-fsanitize=thread)
# GCC copies and clears structures of some hundred bytes, which every operation has several of, by instructions that take longest to begin.
STRINGS := vector_loop:256:noalign$(comma)libcall:-1:noalign
STRINGS := -mmemcpy-strategy=$(STRINGS) -mmemset-strategy=$(STRINGS)
STRINGS := $(if $(SANITIZE),,$(shell $(CC) $(STRINGS) -E -xc /dev/null >/dev/null 2>&1 && echo '$(STRINGS)'))
ALL_CFLAGS := -std=gnu11 -fPIC -fvisibility=hidden -pthread $(WARNINGS) $(CFLAGS) $(STRINGS) $(SANITIZERS)
CPPFLAGS += -I. -I$(B)/include -D_GNU_SOURCE -DCL_TARGET_OPENCL_VERSION=120 \
	-DFUSIOND_VERSION='"$(VERSION)"' -DFUSIOND_LIBEXECDIR='"$(libexecdir)/fusiond"' -DFUSIOND_SYSCONFDIR='"$(sysconfdir)"' \
	-DFUSIOND_SBINDIR='"$(sbindir)"'
ALL_LDFLAGS := -pthread $(LDFLAGS) $(SANITIZERS)

# msgpack-c's pkg-config file and library are named differently before and after version 6.
MSGPACK := $(shell $(PKGCONFIG) --exists msgpack-c 2>/dev/null && $(PKGCONFIG) --libs msgpack-c || echo -lmsgpackc)
LIBS_PROTOCOL := $(MSGPACK)
LIBS_SUPERVISOR := $(LIBS_PROTOCOL) -linih -lcjson -lsystemd
LIBS_ENGINE := $(LIBS_PROTOCOL) -linih -lcjson -lnng -lOpenCL -lxxhash -lsystemd -lm -ldl
LIBS_TLS := -lmbedtls -lmbedx509 -lmbedcrypto
LIBS_CLIENT := $(LIBS_PROTOCOL) -lnng -lcjson -lm $(LIBS_TLS)
LIBS_GATEWAY := $(LIBS_CLIENT) -linih -lsystemd -lseccomp
LIBS_CTL := -linih -lcjson -lncurses -ltinfo -lm -ldl
LIBS_TEST := $(sort $(LIBS_ENGINE) $(LIBS_CLIENT)) -lseccomp -lncurses -ltinfo -lsystemd -lcheck -lsubunit -lrt -lm

# ---- sources, by folder ----

# The frames over nng's streams are the engine's and the clients': the supervisor has no nng.
SRC_SP := protocol/sp.c
SRC_PROTOCOL := $(filter-out $(SRC_SP),$(wildcard protocol/*.c))
SRC_BASE := $(wildcard daemon/base/*.c)
SRC_SUPERVISOR := $(wildcard daemon/door/*.c)
# The gateway is a client of the door.
SRC_GATEWAY := $(wildcard daemon/gateway/*.c)
SRC_ENGINE := $(wildcard daemon/device/*.c daemon/graph/*.c daemon/plan/*.c daemon/plan/rules/*.c \
	daemon/emit/*.c daemon/exec/*.c daemon/serve/*.c)
SRC_CLIENT := $(wildcard client/*.c client/report/*.c)
SRC_CTL := $(wildcard client/fusionctl/*.c)
SRC_BENCH := $(wildcard tests/bench/*.c)
KERNELS := $(wildcard kernels/*.cl)

obj = $(patsubst %.c,$(B)/obj/%.o,$(1))
OBJ_PROTOCOL := $(call obj,$(SRC_PROTOCOL))
OBJ_BASE := $(call obj,$(SRC_BASE))
OBJ_SUPERVISOR := $(call obj,$(SRC_SUPERVISOR))
OBJ_GATEWAY := $(call obj,$(SRC_GATEWAY))
# Of the library, what fusionctl has once more: it exports none of it.
OBJ_SHARED := $(call obj,client/place.c client/number.c)
OBJ_LINK := $(call obj,$(wildcard client/link*.c))
OBJ_TRANSPORT := $(OBJ_LINK) $(call obj,client/beside.c client/linger.c client/transport.c client/transport_ring.c client/transport_nng.c $(SRC_SP))
OBJ_ENGINE := $(call obj,$(SRC_ENGINE) $(SRC_SP)) $(B)/obj/kernels.o
OBJ_CLIENT := $(call obj,$(SRC_CLIENT) $(SRC_SP))
OBJ_CTL := $(call obj,$(SRC_CTL))
OBJ_BENCH := $(call obj,$(SRC_BENCH))

# The Python package: files of Python as they are, what generate.py makes of the tables, and the extension module, which is
# built where Python's headers are. One module serves Python 3.11 and later; pip builds for older ones.
PYTHON_INCLUDE := $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null)
PYTHON_HEADER := $(wildcard $(PYTHON_INCLUDE)/Python.h)
SRC_PYTHON := $(wildcard client/python/src/*.c)
OBJ_PYTHON := $(call obj,$(SRC_PYTHON))
PYTHON_MADE := nn.py _core.pyi _rows.py _errors.py
# By which Python's tools know that the package is there, and libraries that it has the array API standard's namespace.
PYTHON_INFO := $(addprefix $(B)/python/fusion-$(VERSION).dist-info/,METADATA entry_points.txt)
PYTHON_PACKAGE := $(patsubst client/python/%,$(B)/python/%,$(wildcard client/python/fusion/*.py client/python/fusion/*/*.py client/python/fusion/py.typed)) \
	$(addprefix $(B)/python/fusion/,$(PYTHON_MADE)) $(B)/python/fusion/_core.abi3.so
PYTHON_NUMPY := $(filter $(B)/python/fusion/numpy/%,$(PYTHON_PACKAGE))

UNITS := $(notdir $(wildcard systemd/*.service systemd/*.socket))
DROPINS := $(notdir $(wildcard systemd/fusiond.service.d/*.conf))
HEADERS := $(B)/include/fusion_types.h $(B)/include/fusion_ops.h
GENERATED := $(HEADERS) $(B)/include/fusion_calls.h
LIB := $(B)/libfusion.so.$(VERSION)
# All of them are installed, to be read and built against the installed header.
EXAMPLE_FILES := $(patsubst client/examples/%,%,$(wildcard $(addprefix client/examples/,*.c *.cpp *.op */*.c */*.h */*.py */*.md */*.bin)))
EXAMPLES := $(patsubst client/examples/%.c,$(B)/%,$(wildcard client/examples/*.c))
PROGRAMS := $(B)/fusiond $(B)/fusiond-engine $(B)/fusiond-gateway $(B)/fusionctl $(B)/fusion-bench $(EXAMPLES)
# Under a sanitizer: not what takes minutes there (kernels of every form), nor what runs other programs.
UNSANITIZED := test_emit_kernels test_service test_door test_remote test_failing fusiond-engine-faults
SIM := $(addprefix $(B)/tests/sim/,sim supervisor.so engine.so client.so)
# ThreadSanitizer has something to say where there are threads.
THREADED := test_client_door test_client_given_up test_client_handles test_client_names test_client_nng test_client_process test_client_record test_client_sleepers test_client_threads test_client_wait test_serve_transport \
	test_serve_rings test_turns
has_quadmath = $(shell $(1) -include quadmath.h -E -xc /dev/null >/dev/null 2>&1 && echo '$(1)')
ULP_CC := $(or $(call has_quadmath,$(CC)),$(call has_quadmath,gcc))
TESTS := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/test_*.c)) $(B)/tests/run_graphs $(if $(ULP_CC),$(B)/tests/ulp) \
	$(if $(SANITIZE),,$(SIM)) $(B)/tests/nng/lost $(B)/tests/interpose.so $(B)/tests/failing.so $(B)/tests/serial.so $(B)/tests/driver.so $(B)/tests/fusiond-engine-faults
ifeq ($(SANITIZE),address)
TESTS := $(filter-out $(addprefix $(B)/tests/,$(UNSANITIZED) run_graphs ulp),$(TESTS))
endif
ifeq ($(SANITIZE),thread)
TESTS := $(addprefix $(B)/tests/,$(THREADED))
endif
# A page for each section of fusion.h; man/generate.sh knows their titles.
FUNCTION_PAGES := $(addprefix fusion_,errors contexts arrays reading sharing operations gradients capturing watching)
MAN := $(patsubst man/%,$(B)/man/%,$(wildcard man/*.[1-8])) \
	$(B)/man/fusion-ops.7 $(B)/man/fusion-protocol.7 $(B)/man/fusionctl.1 $(B)/man/fusiond.conf.5 $(FUNCTION_PAGES:%=$(B)/man/%.3)

.PHONY: all python deps demo check check-long check-kill check-faults check-sim check-aliasing check-leaks mutants check-cache check-packages check-distros check-ulp check-nng check-oclgrind check-intel check-drivers bench bench-rows figures lint deb symbols install install-python python-headers uninstall clean tests man fuzz fuzz-programs check-fuzz check-anywhere release
.DELETE_ON_ERROR:
.SECONDARY:

all: $(PROGRAMS) $(LIB) man $(if $(SANITIZE),,$(if $(PYTHON_HEADER),python))

deps:
	@sh tests/deps.sh

# ---- generated files ----

$(B)/include/fusion_types.h: client/generate.sh protocol/dtypes.def protocol/errors.def protocol/attributes.def
	@mkdir -p $(@D)
	$(Q)sh client/generate.sh types >$@
$(B)/include/fusion_ops.h: client/generate.sh protocol/fused.def protocol/ops.def protocol/attributes.def client/fusion.h
	@mkdir -p $(@D)
	$(Q)sh client/generate.sh ops >$@
$(B)/include/fusion_calls.h: client/generate.sh protocol/ops.def protocol/attributes.def
	@mkdir -p $(@D)
	$(Q)sh client/generate.sh calls >$@
$(B)/include/handle_calls.h: tests/handle_calls.sh tests/mistakes.txt client/fusion.h $(HEADERS)
	@mkdir -p $(@D)
	$(Q)sh tests/handle_calls.sh client/fusion.h $(HEADERS) >$@
$(B)/obj/tests/test_client_handles.o $(B)/obj/tests/test_client_mistakes.o: $(B)/include/handle_calls.h
$(B)/kernels.S: daemon/emit/embed.sh $(KERNELS)
	@mkdir -p $(@D)
	$(Q)sh daemon/emit/embed.sh kernels >$@
$(B)/obj/kernels.o: $(B)/kernels.S $(KERNELS)
	@mkdir -p $(@D)
	$(Q)$(CC) -c -I. $< -o $@

# ---- compiling and linking ----

# What the compiler said of an object is kept beside it: where warnings are errors, what was built with some is built again.
$(B)/obj/%.o: %.c $(GENERATED)
	@mkdir -p $(@D)
	@$(SAY) "  CC   $<"
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@ 2>$@.said || { cat $@.said >&2; exit 1; }
	@if [ -s $@.said ]; then cat $@.said >&2; else rm -f $@.said; fi
ifneq ($(WERROR),)
$(patsubst %.said,%,$(shell find $(B)/obj -name '*.o.said' 2>/dev/null)): warned
warned: ;
.PHONY: warned
endif

$(B)/fusiond: $(B)/obj/daemon/main.o $(OBJ_SUPERVISOR) $(OBJ_BASE) $(OBJ_PROTOCOL)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) $^ -o $@ $(LIBS_SUPERVISOR)
$(B)/fusiond-engine: $(B)/obj/daemon/engine.o $(OBJ_ENGINE) $(OBJ_BASE) $(OBJ_PROTOCOL)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) $^ -o $@ $(LIBS_ENGINE)
$(B)/fusiond-gateway: $(B)/obj/daemon/gateway.o $(OBJ_GATEWAY) $(OBJ_TRANSPORT) $(OBJ_BASE) $(OBJ_PROTOCOL)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) $^ -o $@ $(LIBS_GATEWAY)
$(LIB): $(OBJ_CLIENT) $(OBJ_PROTOCOL) client/libfusion.map
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,-z,nodelete -Wl,-soname,libfusion.so.$(SOVERSION) -Wl,--version-script,client/libfusion.map \
		$(filter %.o,$^) -o $@ $(LIBS_CLIENT)
	$(Q)ln -sf $(@F) $(B)/libfusion.so.$(SOVERSION)
	$(Q)ln -sf $(@F) $(B)/libfusion.so
# Programs of the build tree find the library beside them or one folder up.
RPATH ?= -Wl,-rpath,'$$ORIGIN:$$ORIGIN/..'
LINK_FUSION = -L$(B) -lfusion $(RPATH)
$(B)/fusionctl: $(OBJ_CTL) $(OBJ_LINK) $(OBJ_SHARED) $(OBJ_PROTOCOL) $(LIB)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) -o $@ $(LINK_FUSION) $(LIBS_CTL) $(LIBS_PROTOCOL) $(LIBS_TLS)
$(B)/fusion-bench: $(OBJ_BENCH) $(LIB)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) -o $@ $(LINK_FUSION) -lcjson -lnng -lOpenCL -lm
# An example is one file, with a folder of its name for what it is made of.
.SECONDEXPANSION:
$(B)/obj/client/examples/%.o $(B)/obj/tests/bench/private_daemon.o: CPPFLAGS += -Iclient
$(EXAMPLES): $(B)/%: $(B)/obj/client/examples/%.o $$(call obj,$$(wildcard client/examples/$$*/*.c)) $(LIB)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) -o $@ $(LINK_FUSION) -lcjson -lm

# A test links everything but the mains, so it can reach inside any layer.
OBJ_TEST := $(OBJ_CLIENT) $(filter-out %/main.o,$(OBJ_CTL)) $(OBJ_GATEWAY) $(OBJ_SUPERVISOR) $(OBJ_ENGINE) $(OBJ_BASE) $(OBJ_PROTOCOL)
$(B)/tests/test_serve_rings: $(B)/obj/tests/rings/engine.o
# Those whose daemon is played by the test.
$(addprefix $(B)/tests/,$(patsubst tests/%.c,%,$(shell grep -l 'include "tests/fake_' tests/test_*.c))): $(B)/obj/tests/rings/served.o
$(B)/tests/test_protocol_ring: ALL_LDFLAGS += -Wl,--wrap=malloc
$(B)/tests/test_serve_poison: ALL_LDFLAGS += -Wl,--wrap=malloc,--wrap=realloc
$(B)/tests/test_graph_memory: ALL_LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
$(B)/tests/test_door: ALL_LDFLAGS += -Wl,--wrap=setsockopt -Wl,--wrap=shm_fill
$(B)/tests/test_protocol_shm: ALL_LDFLAGS += -Wl,--wrap=sendmsg
$(B)/tests/test_catalogue: ALL_LDFLAGS += -Wl,--wrap=fallocate
SCHEDULE_WRAPS := loop_now_ns device_traits device_building device_mark device_flush device_ended_ns launch_joins run_ready launch_steps launch_together
$(B)/tests/test_accounts: ALL_LDFLAGS += -Wl,--wrap=time
$(B)/tests/test_exec: ALL_LDFLAGS += -Wl,--wrap=exec_now_ms
$(B)/tests/test_schedule: ALL_LDFLAGS += $(SCHEDULE_WRAPS:%=-Wl,--wrap=%)
$(B)/tests/test_%: $(B)/obj/tests/test_%.o $(OBJ_TEST)
	@mkdir -p $(@D)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) $^ -o $@ $(LIBS_TEST)
# An engine that tests can end at each stage of its work; its objects are those of the one that is installed.
# Ranges are of ASCII: in Turkish i does not lie between a and z.
FAULT_WRAPS := $(shell LC_ALL=C sed -n 's/^POINT.[a-z_]*, *[a-z]*, *\([a-z_]*\),.*/-Wl,--wrap=\1/p' tests/faults/points.def)
$(B)/obj/tests/faults/points.o: tests/faults/points.def
$(B)/tests/fusiond-engine-faults: $(B)/obj/daemon/engine.o $(B)/obj/tests/faults/points.o $(OBJ_ENGINE) $(OBJ_BASE) $(OBJ_PROTOCOL)
	@mkdir -p $(@D)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) $(FAULT_WRAPS) $^ -o $@ $(LIBS_ENGINE)
$(B)/tests/run_graphs: $(B)/obj/tests/run_graphs.o $(filter-out %/main.o,$(OBJ_CTL)) $(OBJ_LINK) $(OBJ_SHARED) $(OBJ_PROTOCOL) $(LIB)
	@mkdir -p $(@D)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) -o $@ $(LINK_FUSION) $(LIBS_CTL) $(LIBS_PROTOCOL) $(LIBS_TLS)

# The simulation (tests/sim/sim.h): the objects of the programs in three shared objects, what they call of the system in front of them.
SIM_CALLS := $(shell LC_ALL=C sed -n 's/^[A-Za-z_].*__wrap_\([a-z_0-9]*\)[^a-z_0-9].*{$$/\1/p' tests/sim/calls.c tests/sim/thread.c | LC_ALL=C sort -u)
SIM_WRAPS := $(SIM_CALLS:%=-Wl,--wrap=%)
SIM_LINK = $(CC) $(ALL_LDFLAGS) -shared -Wl,-z,norelro,-Bsymbolic $(SIM_WRAPS)
$(B)/obj/tests/sim/main-%.o: $(B)/obj/daemon/%.o
	@mkdir -p $(@D)
	$(Q)$$($(CC) -print-prog-name=objcopy) --redefine-sym main=program_main $< $@
# Which calls are in front is read from there.
$(addprefix $(B)/tests/sim/,supervisor.so engine.so client.so): tests/sim/calls.c
$(B)/tests/sim/supervisor.so: $(B)/obj/tests/sim/main-main.o $(call obj,tests/sim/entry.c tests/sim/thread.c) $(OBJ_SUPERVISOR) $(OBJ_BASE) $(OBJ_PROTOCOL)
	@mkdir -p $(@D)
	@$(SAY) "  LINK $@"
	$(Q)$(SIM_LINK) $(filter %.o,$^) -o $@ $(LIBS_SUPERVISOR)
$(B)/tests/sim/engine.so: $(B)/obj/tests/sim/main-engine.o $(call obj,tests/sim/entry.c tests/sim/thread.c tests/sim/device.c) \
		$(filter-out $(B)/obj/daemon/device/%,$(OBJ_ENGINE)) $(OBJ_BASE) $(OBJ_PROTOCOL)
	@mkdir -p $(@D)
	@$(SAY) "  LINK $@"
	$(Q)$(SIM_LINK) -Wl,--wrap=transport_nng_new $(filter %.o,$^) -o $@ $(LIBS_ENGINE)
$(B)/tests/sim/client.so: $(call obj,tests/sim/client.c tests/sim/script.c tests/sim/thread.c) $(OBJ_CLIENT) $(OBJ_PROTOCOL)
	@mkdir -p $(@D)
	@$(SAY) "  LINK $@"
	$(Q)$(SIM_LINK) -Wl,--wrap=transport_dial $(filter %.o,$^) -o $@ $(LIBS_CLIENT)
$(B)/tests/sim/sim: $(call obj,$(addprefix tests/sim/,main.c points.c world.c instance.c calls.c))
	@mkdir -p $(@D)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -rdynamic $^ -o $@ -ldl

$(B)/tests/%.so: tests/interpose/%.c tests/interpose/interpose.h tests/interpose/failing.h
	@mkdir -p $(@D)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(CPPFLAGS) -std=gnu11 -O2 -shared -fPIC -Wall -Wextra $(if $(WERROR),-Werror) $< -o $@ -ldl

# Its references want floats of 113 bits, of libquadmath, which is GCC's: gcc builds them where the compiler has none of it, and where
# neither does, as on arm64, they are not built.
$(B)/tests/ulp: override CC := $(ULP_CC)
# They run in vectors, in those functions of glibc that have a form for it.
$(B)/obj/tests/ulp/reference.o $(B)/obj/tests/ulp/sweep.o: ALL_CFLAGS += -O3 -fopenmp-simd -fno-math-errno -fno-trapping-math
LIBMVEC := $(if $(filter x86_64-linux-gnu,$(shell $(or $(ULP_CC),$(CC)) -dumpmachine)),-lmvec)
$(B)/tests/ulp: $(call obj,$(wildcard tests/ulp/*.c))
	@mkdir -p $(@D)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) $^ -o $@ -lOpenCL -lquadmath $(LIBMVEC) -lm

# The extension module, too, with ASan: the job address_python of tests/check.sh loads it.
tests: $(TESTS) $(if $(filter address,$(SANITIZE)),$(if $(PYTHON_HEADER),python))

# ---- fuzz targets: tests/fuzz/fuzz_NAME.c, with the harness and the folders that it needs; make fuzz-programs SANITIZE=fuzz ----

FUZZ := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SRC_plan := $(wildcard daemon/graph/*.c daemon/plan/*.c daemon/plan/rules/*.c daemon/emit/*.c)
# The library, and the rings of the daemon that tests/fake_daemon.h plays.
FUZZ_SRC_api := $(SRC_CLIENT) $(SRC_SP) tests/rings/served.c $(addprefix daemon/serve/,rings.c inbox.c follow.c linger.c)
FUZZ_SRC_frame := $(wildcard daemon/graph/*.c)
FUZZ_SRC_text := $(addprefix client/fusionctl/,text.c lex.c element.c values.c)
FUZZ_SRC_kept := $(SRC_SUPERVISOR) $(FUZZ_SRC_plan)
FUZZ_SRC_door := $(SRC_SUPERVISOR)
FUZZ_LDFLAGS_door := -Wl$(comma)--wrap=fork
FUZZ_SRC_config := daemon/gateway/users.c
FUZZ_SRC_session := $(filter-out daemon/device/%,$(SRC_ENGINE)) $(SRC_SP) tests/sim/device.c
FUZZ_SRC_nng := $(SRC_SP)
FUZZ_SRC_remote := $(wildcard client/link*.c) $(addprefix client/,beside.c linger.c transport.c transport_ring.c transport_nng.c transport_remote.c) $(SRC_SP)
FUZZ_LDFLAGS_session := $(addprefix -Wl$(comma)--wrap=,mmap munmap)
FUZZ_LDFLAGS_api := $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc)
$(B)/include/fuzz_api.h: tests/fuzz/api.py client/fusion.h $(HEADERS) tests/fuzz/fuzz_api.c debian/libfusion1.symbols
	$(Q)$(PYTHON) tests/fuzz/api.py check client/fusion.h $(B)/include/fusion_ops.h tests/fuzz/fuzz_api.c debian/libfusion1.symbols
	$(Q)$(PYTHON) tests/fuzz/api.py client/fusion.h $(B)/include/fusion_ops.h >$@
$(B)/obj/tests/fuzz/fuzz_api.o: $(B)/include/fuzz_api.h
fuzz_needs = $(call obj,tests/fuzz/fuzz_$(1).c tests/fuzz/harness.c $(FUZZ_SRC_$(1))) $(OBJ_BASE) $(OBJ_PROTOCOL) \
	$(if $(filter daemon/emit/emit.c,$(FUZZ_SRC_$(1))),$(B)/obj/kernels.o)
$(FUZZ:%=$(B)/fuzz/%): $(B)/fuzz/%: $$(call fuzz_needs,$$*)
	@mkdir -p $(@D)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer $(FUZZ_LDFLAGS_$*) $^ -o $@ $(LIBS_ENGINE) $(LIBS_SUPERVISOR) $(LIBS_TLS)
$(B)/fuzz-seeds: $(call obj,tests/fuzz/seeds.c client/fusionctl/text.c client/fusionctl/lex.c client/fusionctl/element.c client/fusionctl/values.c) \
	$(call obj,$(wildcard daemon/graph/*.c)) $(OBJ_BASE) $(OBJ_PROTOCOL)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) $^ -o $@ $(LIBS_ENGINE)
fuzz-programs: $(FUZZ:%=$(B)/fuzz/%)

# ---- Python ----

python: $(PYTHON_PACKAGE) $(PYTHON_INFO)

$(OBJ_PYTHON): CPPFLAGS += -isystem $(PYTHON_INCLUDE) -DPy_LIMITED_API=0x030B0000
# Tables of types hold functions as void pointers: that is Python's interface.
$(OBJ_PYTHON): ALL_CFLAGS += -Wno-pedantic
$(B)/python/fusion/_core.abi3.so: $(OBJ_PYTHON) $(LIB)
	@mkdir -p $(@D)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -shared $(OBJ_PYTHON) -o $@ -L$(B) -lfusion $(if $(RPATH),-Wl$(comma)-rpath$(comma)'$$ORIGIN/../..:$$ORIGIN/../../..')
$(addprefix $(B)/python/fusion/,$(PYTHON_MADE)): $(B)/python/fusion/%: client/python/generate.py $(wildcard protocol/*.def) client/python/src/names.def client/python/core.pyi
	@mkdir -p $(@D)
	$(Q)$(PYTHON) client/python/generate.py $* >$@
$(B)/python/fusion/%: client/python/fusion/%
	@mkdir -p $(@D)
	$(Q)cp $< $@
$(PYTHON_INFO): client/python/generate.py client/python/pyproject.toml
	@mkdir -p $(@D)
	$(Q)$(PYTHON) client/python/generate.py $(@F) >$@

clean:
	rm -rf build build-address build-thread build-fuzz

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)

# ---- man ----

man: $(MAN)

$(B)/man/fusion-ops.7: man/generate.sh man/fusion-ops.7.in protocol/fused.def protocol/ops.def protocol/attributes.def protocol/dtypes.def protocol/errors.def kernels/ulp.def
	@mkdir -p $(@D)
	$(Q)sh man/generate.sh ops >$@
$(B)/man/fusion-protocol.7: man/generate.sh man/fusion-protocol.7.in protocol/messages.def protocol/features.def protocol/ops.def protocol/dtypes.def protocol/errors.def
	@mkdir -p $(@D)
	$(Q)sh man/generate.sh protocol >$@
$(B)/man/fusionctl.1: man/generate.sh man/fusionctl.1.in client/fusionctl/commands.def client/fusionctl/options.def
	@mkdir -p $(@D)
	$(Q)sh man/generate.sh ctl >$@
$(FUNCTION_PAGES:%=$(B)/man/%.3): $(B)/man/%.3: man/generate.sh client/fusion.h
	@mkdir -p $(@D)
	$(Q)sh man/generate.sh $* >$@
$(B)/man/fusiond.conf.5: man/generate.sh man/fusiond.conf.5.in daemon/base/settings.def daemon/base/builtins.def daemon/base/knobs.def protocol/patterns.def
	@mkdir -p $(@D)
	$(Q)sh man/generate.sh conf >$@
$(B)/man/%: man/%
	@mkdir -p $(@D)
	$(Q)cp $< $@

# ---- demo, check, bench, lint ----

demo: deps
	@$(MAKE) --no-print-directory $(if $(MAKEFLAGS),,-j$(shell nproc)) all
	@$(B)/demo

CHECKED_BY ?= $(shell SLICE="$(SLICE)" sh tests/slice.sh sanitizers)
check: deps
	@$(MAKE) --no-print-directory -j$(shell nproc) all tests
	@set -e; for sanitizer in $(CHECKED_BY); do \
		$(MAKE) --no-print-directory -j$(shell nproc) SANITIZE=$$sanitizer tests; done
	@CHECK_SANITIZED="$(CHECKED_BY:%=build-%)" PYTHON=$(PYTHON) bash tests/check.sh $(B)

# Random graphs over every operation in every element type, in families of ten that share kernels.
GRAPHS ?= 10000
SEED ?= 1
STRATEGY ?=
OWN ?= 500
SLICED := graphs oracle_ops oracle_composites oracle_grad oracle_grad_points oracle_train oracle_graphs \
	oracle_tiers oracle_optimise test_emit_kernels test_faults
check-long: deps
	@$(MAKE) --no-print-directory -j$(shell nproc) all tests
	@SLICE=all PYTHON=$(PYTHON) bash tests/check.sh $(B) $(SLICED)
	@FUSION_BUILD=$(B) $(PYTHON) tests/oracle/test_random.py --every-type --members 10 --graphs $(GRAPHS) --seed $(SEED) \
		$(if $(STRATEGY),--strategy $(STRATEGY)) --hashes $(B)/random-hashes
	@FUSION_BUILD=$(B) $(PYTHON) tests/oracle/test_programs.py --programs $(GRAPHS) --own $(OWN) --seed $(SEED) --total 25165824 --networks-built --cold \
		--jobs $(shell nproc)

ONLY ?=
check-ulp: deps
	@$(MAKE) --no-print-directory $(B)/tests/ulp
	@$(B)/tests/ulp --all --type f32 --record $(B)/ulp-record $(if $(ONLY),--only $(ONLY))

# Clients killed at random points; a slice is part of check.
KILLS ?= 1000
check-kill: deps
	@$(MAKE) --no-print-directory all $(B)/tests/test_kill
	@FUSION_BUILD=$(B) KILLS=$(KILLS) SEED=$(SEED) $(B)/tests/test_kill

# Engines that end at each stage of their work in each way, and calls that fail; a slice is part of check.
check-faults: deps
	@$(MAKE) --no-print-directory all $(B)/tests/test_faults $(B)/tests/fusiond-engine-faults $(B)/tests/test_failing $(B)/tests/failing.so $(SIM)
	@FUSION_BUILD=$(B) $(B)/tests/test_faults
	@$(B)/tests/sim/sim --points
	@FUSION_BUILD=$(B) $(B)/tests/test_failing

# Supervisor, engines and clients in one process, in virtual time; a slice is part of check.
SEEDS ?= 10000
check-sim: deps
	@$(MAKE) --no-print-directory $(SIM)
	@$(B)/tests/sim/sim --seed $(SEED) --seeds $(SEEDS) --jobs $(shell nproc)

# Programs of views, copies and writes, in NumPy and in fusion; a slice is part of check.
PROGRAMS ?= 10000
check-aliasing: deps
	@$(MAKE) --no-print-directory -j$(shell nproc) all
	@FUSION_BUILD=$(B) $(PYTHON) tests/aliasing/run.py --programs $(PROGRAMS) --seed $(SEED) --jobs $(shell nproc)

# What grows by calls that give back what they took, in client and daemon; a slice is part of check.
CALLS ?= 1000000
check-leaks: deps
	@$(MAKE) --no-print-directory -j$(shell nproc) all
	@FUSION_BUILD=$(B) $(PYTHON) tests/leaks.py --calls $(CALLS)

# Each patch of tests/mutants, in a copy of the tree.
mutants: deps
	@bash tests/mutants/run.sh $(B)

# Two daemons on one cache folder, killed at random points; a slice is part of check.
check-cache: deps
	@$(MAKE) --no-print-directory all
	@FUSION_BUILD=$(B) KILLS=$(if $(filter command line,$(origin KILLS)),$(KILLS),200) SEED=$(SEED) $(PYTHON) tests/oracle/test_cache_kill.py
	@FUSION_BUILD=$(B) CASES=500 SEED=$(SEED) $(PYTHON) tests/oracle/test_cache_damage.py

# Coverage-guided fuzzing of one target, from the inputs that are kept; SECONDS of one core. What it finds is in build-fuzz/found.
TARGET ?= plan
SECONDS ?= 60
FUZZ_MAKE = $(MAKE) --no-print-directory CC="$(filter ccache,$(CC)) $$(sh tests/fuzz/clang.sh)" SANITIZE=fuzz
fuzz:
	@sh tests/fuzz/clang.sh >/dev/null
	@$(FUZZ_MAKE) -j$(shell nproc) build-fuzz/fuzz/$(TARGET)
	@$(PYTHON) tests/fuzz/run.py build-fuzz fuzz $(TARGET) $(SECONDS)
# Each target for that long, whatever became of those before it.
check-fuzz:
	@sh tests/fuzz/clang.sh >/dev/null
	@$(FUZZ_MAKE) -j$(shell nproc) $(FUZZ:%=build-fuzz/fuzz/%)
	@failed=0; for target in $(FUZZ); do $(PYTHON) tests/fuzz/run.py build-fuzz fuzz $$target $(SECONDS) || failed=1; done; exit $$failed

ROUNDS ?= 4000
check-nng: $(B)/tests/nng/lost
	@$< $(ROUNDS)
$(B)/tests/nng/lost: $(B)/obj/tests/nng/lost.o
	@mkdir -p $(@D)
	@$(SAY) "  LINK $@"
	$(Q)$(CC) $(ALL_LDFLAGS) $^ -o $@ -lnng

check-oclgrind: deps
	@sh tests/deps.sh oclgrind
	@$(MAKE) --no-print-directory -j$(shell nproc) all tests
	@bash tests/oclgrind.sh $(B)

check-intel: deps
	@$(MAKE) --no-print-directory -j$(shell nproc) all tests
	@PYTHON=$(PYTHON) bash tests/intel.sh $(B)

# Rows of docs/drivers.md on standard output.
check-drivers: all tests
	@PYTHON=$(PYTHON) bash tests/drivers.sh $(B)

bench: all
	@sh tests/bench/compare.sh $(B)

# Kernels over rows and over columns, of even and odd sizes.
BENCH_ROWS := $(foreach size,4096x1024 4095x1023 1000x777,$(foreach axis,_ 0_,\
	$(foreach form,softmax layernorm var logsumexp,$(form)$(axis)$(size))))

figures: all
	@sh tests/bench/figures.sh $(B) $(BLOCK)

bench-rows: all
	@PEERS="jax inductor" PEERS_SCRIPT=tests/bench/peers_rows.py sh tests/bench/compare.sh $(B) $(BENCH_ROWS)

lint:
	@sh tests/lint.sh $(B)

# ---- packages ----

check-distros:
	@-[ "$$(id -u)" != 0 ] || command -v mmdebstrap debootstrap >/dev/null || sh tests/deps.sh mmdebstrap
	@bash tests/distros.sh

# The whole of check in each place where people are: hours. PLACES="tmp blanks" and JOBS="e2e_autostart" take some.
check-anywhere:
	@PYTHON=$(PYTHON) bash tests/anywhere.sh

# Everything, once, with what came of it in docs/RELEASE-CHECK.md. PARTS="check kill" takes some.
release:
	@bash tests/release.sh

check-packages: deb
	@sh tests/packages_root.sh $(DEB)

# Built from a copy of the tree, in folders of its own.
DEB := build/deb
deb:
	@sh tests/deps.sh build-essential debhelper dh-python lintian
	@rm -rf $(DEB) && mkdir -p $(DEB)/fusiond-$(VERSION)
	@tar -c --exclude='./build*' --exclude=./.git . | tar -x -C $(DEB)/fusiond-$(VERSION)
	cd $(DEB)/fusiond-$(VERSION) && CC="$(CC)" dpkg-buildpackage -us -uc -b
	lintian --fail-on error $(DEB)/*.changes
	@ls $(DEB)/*.deb

symbols: $(LIB)
	@sh debian/symbols.sh add $(LIB) debian/libfusion$(SOVERSION).symbols $(VERSION)

# ---- install ----

INSTALL ?= install
FILL_UNIT = sh systemd/fill.sh
UNIT_FOLDERS = sbindir=$(sbindir) datadir=$(datadir) sysconfdir=$(sysconfdir)

install: all
	$(INSTALL) -d $(DESTDIR)$(sbindir) $(DESTDIR)$(bindir) $(DESTDIR)$(libdir)/pkgconfig $(DESTDIR)$(includedir) \
		$(DESTDIR)$(libexecdir)/fusiond $(DESTDIR)$(mandir)/man1 $(DESTDIR)$(mandir)/man3 $(DESTDIR)$(mandir)/man5 \
		$(DESTDIR)$(mandir)/man7 $(DESTDIR)$(mandir)/man8 $(DESTDIR)$(unitdir) $(DESTDIR)$(userunitdir) $(DESTDIR)$(datadir)/fusiond/systemd \
		$(DESTDIR)$(sysusersdir) $(DESTDIR)$(tmpfilesdir)
	$(INSTALL) -m 755 $(B)/fusiond $(DESTDIR)$(sbindir)/fusiond
	$(INSTALL) -m 755 $(B)/fusiond-engine $(DESTDIR)$(libexecdir)/fusiond/fusiond-engine
	$(INSTALL) -m 755 $(B)/fusiond-gateway $(DESTDIR)$(libexecdir)/fusiond/fusiond-gateway
	$(INSTALL) -m 755 $(B)/fusionctl $(DESTDIR)$(bindir)/fusionctl
	$(INSTALL) -d $(DESTDIR)$(completiondir)
	$(INSTALL) -m 644 client/fusionctl/completion.bash $(DESTDIR)$(completiondir)/fusionctl
	$(INSTALL) -m 755 $(LIB) $(DESTDIR)$(libdir)/libfusion.so.$(VERSION)
	ln -sf libfusion.so.$(VERSION) $(DESTDIR)$(libdir)/libfusion.so.$(SOVERSION)
	ln -sf libfusion.so.$(SOVERSION) $(DESTDIR)$(libdir)/libfusion.so
	$(INSTALL) -m 644 client/fusion.h client/fusion.hpp $(HEADERS) $(DESTDIR)$(includedir)
	for file in $(EXAMPLE_FILES); do $(INSTALL) -D -m 644 client/examples/$$file $(DESTDIR)$(exampledir)/$$file || exit; done
	sed -e 's|@PREFIX@|$(prefix)|;s|@LIBDIR@|$(libdir)|;s|@INCLUDEDIR@|$(includedir)|;s|@VERSION@|$(VERSION)|' \
		client/fusion.pc.in >$(DESTDIR)$(libdir)/pkgconfig/fusion.pc
	for page in $(MAN); do $(INSTALL) -m 644 $$page $(DESTDIR)$(mandir)/man$${page##*.}/; done
	for unit in $(UNITS); do $(FILL_UNIT) $$unit $(UNIT_FOLDERS) >$(DESTDIR)$(unitdir)/$$unit || exit; done
	$(FILL_UNIT) user/fusiond.service $(UNIT_FOLDERS) >$(DESTDIR)$(userunitdir)/fusiond.service
	for part in $(DROPINS); do $(FILL_UNIT) fusiond.service.d/$$part $(UNIT_FOLDERS) >$(DESTDIR)$(datadir)/fusiond/systemd/$$part || exit; done
	$(INSTALL) -d $(DESTDIR)$(datadir)/fusiond/monitoring
	$(INSTALL) -m 644 $(wildcard systemd/monitoring/*) $(DESTDIR)$(datadir)/fusiond/monitoring
	$(INSTALL) -m 644 systemd/fusiond.sysusers $(DESTDIR)$(sysusersdir)/fusiond.conf
	$(INSTALL) -m 644 systemd/fusiond.tmpfiles $(DESTDIR)$(tmpfilesdir)/fusiond.conf
	$(if $(DESTDIR),,-ldconfig)

python-headers:
	@echo "$(PYTHON) has no headers here, with which to build an extension module: install python3-dev" >&2; exit 1
install-python: $(if $(PYTHON_HEADER),python,python-headers)
	$(INSTALL) -d $(addprefix $(DESTDIR)$(pythondir)/,fusion/numpy fusion-$(VERSION).dist-info)
	$(INSTALL) -m 644 $(filter-out $(PYTHON_NUMPY),$(PYTHON_PACKAGE)) $(DESTDIR)$(pythondir)/fusion
	$(INSTALL) -m 644 $(PYTHON_NUMPY) $(DESTDIR)$(pythondir)/fusion/numpy
	$(INSTALL) -m 644 $(PYTHON_INFO) $(DESTDIR)$(pythondir)/fusion-$(VERSION).dist-info

uninstall:
	rm -f $(DESTDIR)$(sbindir)/fusiond $(addprefix $(DESTDIR)$(libexecdir)/fusiond/,fusiond-engine fusiond-gateway) $(DESTDIR)$(bindir)/fusionctl
	rm -f $(DESTDIR)$(completiondir)/fusionctl
	rm -f $(DESTDIR)$(libdir)/libfusion.so.$(VERSION) $(DESTDIR)$(libdir)/libfusion.so.$(SOVERSION) $(DESTDIR)$(libdir)/libfusion.so
	rm -f $(DESTDIR)$(libdir)/pkgconfig/fusion.pc $(addprefix $(DESTDIR)$(includedir)/,fusion.h fusion.hpp $(notdir $(HEADERS)))
	rm -f $(addprefix $(DESTDIR)$(exampledir)/,$(EXAMPLE_FILES))
	-rmdir $(addprefix $(DESTDIR)$(exampledir)/,$(sort $(filter-out ./,$(dir $(EXAMPLE_FILES))))) $(DESTDIR)$(exampledir) 2>/dev/null
	for page in $(notdir $(MAN)); do rm -f $(DESTDIR)$(mandir)/man$${page##*.}/$$page; done
	rm -f $(addprefix $(DESTDIR)$(unitdir)/,$(UNITS)) $(DESTDIR)$(userunitdir)/fusiond.service
	rm -f $(addprefix $(DESTDIR)$(datadir)/fusiond/systemd/,$(DROPINS))
	rm -rf $(DESTDIR)$(datadir)/fusiond/monitoring
	rm -f $(DESTDIR)$(sysusersdir)/fusiond.conf $(DESTDIR)$(tmpfilesdir)/fusiond.conf
	rm -rf $(DESTDIR)$(pythondir)/fusion $(DESTDIR)$(pythondir)/fusion-$(VERSION).dist-info
	-rmdir $(DESTDIR)$(libexecdir)/fusiond $(DESTDIR)$(datadir)/fusiond/systemd $(DESTDIR)$(datadir)/fusiond 2>/dev/null
