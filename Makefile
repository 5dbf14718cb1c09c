# make            build run, export and bench
# make core       build/core/run: the core alone, on plain C, and its lines of code
# make wasm       build/wasm/browser/index.html: the core and the story model in a browser (clang, wasi-libc)
# make check      a sample of every promise, in about a minute: for editing
# make check-numbers   of make check the programs that compute; make check-bits: those whose numbers are known;
#                make check-texts: the others
# make test       more of it, in less than three     make test-all   every case at its full size
# make test-sweeps   of test-all the programs that take more there than in make test
# make soak       the promises at full size, in minutes
# make guard      counts instructions, and compares them with tests/guard_instructions.txt (valgrind)
# make asan       make test under ASan and UBSan
# make fuzz       run every fuzz target for FUZZ_SECONDS each (clang)
# make coverage   the lines of each reader that the fuzz targets reach (clang, llvm)
# make tsan       generation, a batch and a conversion under ThreadSanitizer (clang)
# make format     clang-format in place              make lint   includes, names, clang-format and cppcheck
# make mpi        build/run-mpi: run as several processes that compute one model (docs/cluster.md)
# make install    PREFIX=/usr/local DESTDIR=       make install-strip, without debug lines: 16 MB for 40
# make uninstall  with the same PREFIX and DESTDIR
# make shared     build/shared/libverbatim.so.1: the library of verbatim.h; make install-library installs it
# make deb        dist/verbatim_VERSION_ARCHITECTURE.deb; MAINTAINER="NAME <ADDRESS>": who publishes it
# make static     build/static/run, export: no shared libraries, the same bytes from the same compiler
# make dist       dist/verbatim-VERSION.tar.gz, and -linux-ARCHITECTURE.tar.gz with the static programs
# make release    all that a release publishes, from a clean tag: docs/releasing.md
#
# Variants build beside each other: make test CC=clang OPT=-O0 BUILD=build/clang-O0

CC = gcc
OPT = -O3
DEBUG = -g1# lines and functions: -g takes half as long again to compile, and twice with vector code
BUILD = build
PREFIX = /usr/local
DESTDIR =
ifneq ($(words $(BUILD)),1)
$(error BUILD="$(BUILD)": make takes no blanks in names of targets)
endif
FUZZ_SECONDS = 15
WERROR ?=
CFLAGS =
LDFLAGS =

PACKAGES = libpcre2-8 jansson libutf8proc libxxhash
PACKAGE_CFLAGS := $(shell pkg-config --cflags $(PACKAGES))
PACKAGE_LIBS := $(shell pkg-config --libs $(PACKAGES))

# libedit is used where found; --version says so.
HAVE_LIBEDIT := $(shell pkg-config --exists libedit && echo yes)
ifeq ($(HAVE_LIBEDIT),yes)
PACKAGE_CFLAGS += -DHAVE_LIBEDIT $(shell pkg-config --cflags libedit)
PACKAGE_LIBS += $(shell pkg-config --libs libedit)
endif

# -ffp-contract=off: a fused multiply-add is one that the source spells out (docs/numerics.md).
ALL_CFLAGS = -pipe -std=c11 -D_GNU_SOURCE $(LEVEL) $(DEBUG) -fopenmp -ffp-contract=off -fno-math-errno \
	-fno-strict-aliasing -fstack-protector-strong -Wall -Wextra -Wshadow $(WERROR) \
	-I. $(PACKAGE_CFLAGS) $(CFLAGS) -MMD -MP
ALL_LIBS = $(LDFLAGS) $(PACKAGE_LIBS) -lm -lpthread

PROGRAMS = run export bench
MAINS = $(PROGRAMS:%=%.c) decoder.c core/core.c core/core_absent.c

# What the processor that builds has, as macros of the compiler.
NATIVE := $(shell $(CC) -march=native -dM -E -x c /dev/null 2>/dev/null)

# Instruction sets of each processor; kernels/isa_list.h has the same list for the compiler. NAME
# stands for the kernels kernels/NAME.c, NAME_superblocks.c and NAME_pairs.c, compiled with FLAGS_NAME.
ISAS_x86_64 = avx2 avxvnni avx512 avx512_bf16 amx amx_bf16
ISAS_aarch64 = neon neon_i8mm
FLAGS_avx2 = -mavx2 -mfma -mf16c
FLAGS_avxvnni = $(FLAGS_avx2) -mavxvnni
FLAGS_avx512 = $(FLAGS_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni \
	-mprefer-vector-width=512
FLAGS_avx512_bf16 = $(FLAGS_avx512) -mavx512bf16
FLAGS_amx = $(FLAGS_avx512) -mamx-tile -mamx-int8
FLAGS_amx_bf16 = $(FLAGS_amx) -mamx-bf16
FLAGS_neon = -march=armv8.2-a+dotprod+fp16
FLAGS_neon_i8mm = -march=armv8.2-a+dotprod+fp16+i8mm
# Instruction sets whose code `make asan` and `make fuzz` leave without sanitizers.
UNSANITIZED =
NO_SANITIZERS = -fno-sanitize=all
$(foreach isa,$(UNSANITIZED),$(eval FLAGS_$(isa) += $(NO_SANITIZERS)))

MACHINE := $(shell $(CC) -dumpmachine | cut -d- -f1)
ISAS = $(ISAS_$(MACHINE))
isa_kernels = $(wildcard $(foreach isa,$(1),kernels/$(isa).c kernels/$(isa)_superblocks.c \
	kernels/$(isa)_pairs.c))
ALL_KERNELS = $(call isa_kernels,$(ISAS_x86_64) $(ISAS_aarch64))

# Vector code is compiled once for each instruction set that has lanes of its own, with -DISA=name.
# kernels/float.c has no plain C build: kernels/reference.c multiplies floats itself.
ISA_SOURCES = core/attention_segment.c core/attention_bf16.c kernels/attention_q8.c core/numeric.c kernels/float.c layers/state/recurrence.c \
	layers/attention/index_scores.c layers/attention/latent_page.c
LANES = reference $(patsubst kernels/lanes_%.h,%,$(wildcard $(ISAS:%=kernels/lanes_%.h)))
ISA_OBJECTS = $(filter-out $(BUILD)/kernels/float.reference.o, \
	$(foreach isa,$(LANES),$(ISA_SOURCES:%.c=$(BUILD)/%.$(isa).o)))

# The folders of the house beside the root; docs/architecture.md says what each is for.
ROOMS = $(addprefix layers/,attention state experts arrangements) $(addprefix formats/,containers stored tokenizers family) \
	families/reading $(addprefix modes/,proof open inspect batch chat) ports/library
FOLDERS = base json system kernels kvcache tokenizer core layers constraint draft session template advice families adapters \
	convert modes measure $(ROOMS)
SOURCES = $(filter-out $(MAINS) $(ISA_SOURCES) $(ALL_KERNELS) kernels/plain_superblocks.c,$(wildcard *.c $(FOLDERS:%=%/*.c))) $(MORE_SOURCES)
# Those that take longest first.
OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(call isa_kernels,$(ISAS))) $(ISA_OBJECTS) $(SOURCES:%.c=$(BUILD)/%.o)
TESTS = $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
SOAKS = $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/soak_*.c))
FUZZERS = $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/fuzz_*.c))

all: $(PROGRAMS) $(BUILD)/decoder
$(PROGRAMS): %: $(BUILD)/%
	@if [ -w . ]; then ln -sf $< $@; else echo "$<: no link ./$@ in a source tree that cannot be written to"; fi

# What computes is compiled with $(OPT). -O1 compiles in half of the time what does not: files,
# conversations, tests; -O2 is for what must be fast and has few loops over numbers. The plain build of vector code, which is the definition, is as fast with -Og;
# -O1 takes gcc up to five times as long, because it makes 16 variables of 16 lanes.
LEVEL = $(OPT)
NOT_COMPUTING = families formats template system session advice modes ports measure tests
FEW_LOOPS = constraint json convert draft
$(NOT_COMPUTING:%=$(BUILD)/%/%.o): LEVEL = $(OPT:-O3=-O1)
$(FEW_LOOPS:%=$(BUILD)/%/%.o): LEVEL = $(OPT:-O3=-O2)
$(BUILD)/convert/quantize%.o: LEVEL = $(OPT)
$(BUILD)/%.reference.o: LEVEL = $(OPT:-O3=-Og)
$(BUILD)/kernels/%_superblocks.o: LEVEL = $(OPT:-O3=-O2) # hundreds of kernels, as fast as with -O3
$(BUILD)/formats/stored/stored%.o: LEVEL = $(OPT) # conversions

# Pages of families are a part of the program, as texts.
PAGES = $(sort $(wildcard families/*.family))
OBJECTS += $(BUILD)/families/pages.o
$(BUILD)/families/pages.c: scripts/pages-to-c $(PAGES)
	@mkdir -p $(@D)
	scripts/pages-to-c $(PAGES) >$@
$(BUILD)/families/pages.o: $(BUILD)/families/pages.c
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

# The library holds everything but the main files; tests link against it as well.
$(BUILD)/libverbatim.a: $(OBJECTS)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/run $(BUILD)/export $(BUILD)/bench $(BUILD)/decoder: $(BUILD)/%: $(BUILD)/%.o $(BUILD)/libverbatim.a
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(ALL_LIBS)

# decoder.c after an edit (scripts/decoder-edits).
$(BUILD)/edits/%: $(BUILD)/edits/%.c $(BUILD)/libverbatim.a
	$(CC) $(ALL_CFLAGS) -O1 -o $@ $^ $(ALL_LIBS)

# run for several processes under mpirun. Only run.c and ports/cluster/ know of MPI; everything else is the
# library's.
MPICC = mpicc
MPI_FLAGS = $(shell $(MPICC) -show 2>/dev/null) # gcc -I... -L... -lmpi
MPI_LIBS = $(filter-out -I%,$(wordlist 2,99,$(MPI_FLAGS))) -ldl
MPI_CFLAGS = -DVERBATIM_MPI $(filter -I%,$(MPI_FLAGS))
MPI_OBJECTS = $(BUILD)/mpi/run.o $(patsubst %.c,$(BUILD)/mpi/%.o,$(wildcard ports/cluster/*.c))
mpi: $(BUILD)/run-mpi
$(BUILD)/run-mpi: $(MPI_OBJECTS) $(BUILD)/libverbatim.a
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(ALL_LIBS) $(MPI_LIBS)
$(BUILD)/mpi/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(MPI_CFLAGS) -c -o $@ $<

# What ./quickstart shows first, in half of the time: run with the kernels of one instruction set, FIRST (avx2,
# avx512 or neon), and of no other, and plain C for the types that the shipped models do not have. Everything
# else of it is what run is made of.
FIRST =
ISA_LISTS = core/isa layers/attention/ranking layers/state/state_steps# what has a list of the instruction sets
FIRST_PLAIN = $(BUILD)/first/kernels/plain_superblocks.o
OTHER_ISAS = $(filter-out $(FIRST),$(ISAS))
FIRST_OBJECTS = $(ISA_LISTS:%=$(BUILD)/first/%.o) $(FIRST_PLAIN) $(filter-out $(ISA_LISTS:%=$(BUILD)/%.o) \
	$(BUILD)/kernels/$(FIRST)_superblocks.o $(OTHER_ISAS:%=$(BUILD)/\%.%.o) \
	$(patsubst %.c,$(BUILD)/%.o,$(call isa_kernels,$(OTHER_ISAS))),$(OBJECTS))
$(BUILD)/first/run: $(BUILD)/run.o $(FIRST_OBJECTS)
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(ALL_LIBS)
$(BUILD)/first/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -D'EACH_ISA(X)=X(reference, reference) X($(FIRST), $(FIRST))' -c -o $@ $<
$(FIRST_PLAIN): ALL_CFLAGS += $(FLAGS_$(FIRST)) -DSUPERBLOCK_KERNELS=superblock_kernels_$(FIRST)

# For scripts/measure-ranks.
MPI_WIRE = $(BUILD)/mpi/ports/cluster/wire.o $(BUILD)/mpi/ports/cluster/starter.o $(BUILD)/libverbatim.a
$(BUILD)/tests/measure_exchanges: $(BUILD)/mpi/tests/measure_exchanges.o $(MPI_WIRE)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(ALL_LIBS) $(MPI_LIBS)
# For tests/test_mpi.c. It has the test of all system calls in it.
$(BUILD)/tests/attack_rank: $(BUILD)/mpi/tests/attack_rank.o $(BUILD)/tests/test_sandbox_calls.o \
	$(BUILD)/tests/process.o $(MPI_WIRE)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(CMOCKA_LIBS) $(ALL_LIBS) $(MPI_LIBS)
$(BUILD)/tests/measure_link $(BUILD)/tests/slow_network: $(BUILD)/%: $(BUILD)/%.o
	$(CC) $(ALL_CFLAGS) -o $@ $^

# The speed of one core's products: docs/benchmarks.md.
$(BUILD)/tests/measure_kernels: $(BUILD)/tests/measure_kernels.o $(BUILD)/libverbatim.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(ALL_LIBS)

# Tests of ports/cluster/ need no MPI: tests/thread_wire.c joins threads instead of processes.
RANK_HELPERS = tests/ranks.c tests/thread_wire.c tests/wire_cases.c
CLUSTER_OBJECTS = $(patsubst %,$(BUILD)/mpi/ports/cluster/%.o, \
	codes cut divide leader_steps message observed rank share)
CLUSTER_TEST_OBJECTS = $(RANK_HELPERS:%.c=$(BUILD)/%.o) $(CLUSTER_OBJECTS)
$(BUILD)/tests/test_cluster: $(CLUSTER_TEST_OBJECTS)

# libverbatim.so.1, a second set of objects with -fPIC: it exports what verbatim.h declares, and nothing of
# ours or of jansson's beside. The linker leads allocations through ports/library/refused.c.
SHARED = $(BUILD)/shared
LIBRARY_WRAPS = malloc calloc realloc aligned_alloc strdup strndup $(addprefix json_,object array string stringn \
	string_nocheck stringn_nocheck integer real copy deep_copy sprintf vsprintf object_set_new object_set_new_nocheck \
	object_update array_append_new array_insert_new array_extend pack vpack_ex dumps dump_callback reader_load \
	reader_load_digits)
# What the library never calls (modes, conversions, families) is not compiled a second time.
SHARED_FOLDERS = base json system kernels kvcache tokenizer core layers $(filter layers/%,$(ROOMS)) constraint draft session \
	template advice adapters modes modes/proof modes/batch ports/library
shared:
	$(MAKE) BUILD=$(SHARED) FOLDERS="$(SHARED_FOLDERS)" MORE_SOURCES="formats/family/embedding_pooling.c modes/open/conversion_options.c" \
		CFLAGS="$(CFLAGS) -fPIC -ffunction-sections -fvisibility=hidden -DVERBATIM_SHARED" $(SHARED)/libverbatim.so.1
$(BUILD)/libverbatim.so.1: $(BUILD)/ports/library/verbatim.o $(BUILD)/libverbatim.a ports/library/verbatim.map
	$(CC) $(ALL_CFLAGS) -shared -Wl,-soname,libverbatim.so.1 -Wl,--version-script=ports/library/verbatim.map \
		-Wl,-z,defs -Wl,-z,now -Wl,-z,nodelete -Wl,--gc-sections $(LIBRARY_WRAPS:%=-Wl,--wrap=%) \
		-o $@ $(filter %.o %.a,$^) $(ALL_LIBS)
	ln -sf libverbatim.so.1 $(BUILD)/libverbatim.so

# Programs without shared libraries. Of jansson only json_* stays visible: its archive has functions
# with names that we have, too. What libedit needs is not in every pkg-config file. NAME.linked lists the files
# that the linker took (scripts/linked).
STATIC_LIBS = $(filter-out -ljansson,$(shell pkg-config --static --libs $(PACKAGES)))
ifeq ($(HAVE_LIBEDIT),yes)
STATIC_LIBS += $(filter-out -ltermcap,$(shell pkg-config --static --libs libedit)) -lmd -ltinfo
endif
OBJCOPY = $(shell $(CC) -print-prog-name=objcopy)
NM = $(shell $(CC) -print-prog-name=nm)
STRIP = strip
static: $(BUILD)/static/run $(BUILD)/static/export $(BUILD)/static/bench
$(BUILD)/static/jansson.o: $(BUILD)/libverbatim.a
	@mkdir -p $(@D)
	$(CC) -nostdlib -r $(LDFLAGS) -Wl,--trace,--trace -Wl,--whole-archive -l:libjansson.a -Wl,--no-whole-archive -o $@ >$@.linked
	$(OBJCOPY) --wildcard --keep-global-symbol='json*' $@
$(BUILD)/static/%: $(BUILD)/%.o $(BUILD)/libverbatim.a $(BUILD)/static/jansson.o
	$(CC) $(ALL_CFLAGS) -static -Wl,--build-id=none -Wl,--trace,--trace -o $@ $^ $(LDFLAGS) $(STATIC_LIBS) -lm -lpthread >$@.linked
	$(STRIP) -s $@
# The licences of the libraries that are in them, for those who pass the programs on.
$(BUILD)/static/NOTICES: $(BUILD)/static/run $(BUILD)/static/export $(BUILD)/static/bench scripts/linked
	scripts/linked --notices $(BUILD)/static >$@.tmp
	@mv $@.tmp $@

define isa_rules
$(BUILD)/%.$(1).o: %.c
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $$(FLAGS_$(1)) -DISA=$(1) -c -o $$@ $$<
$(BUILD)/kernels/$(1).o $(BUILD)/kernels/$(1)_superblocks.o $(BUILD)/kernels/$(1)_pairs.o: ISA_FLAGS = $(FLAGS_$(1))
$(BUILD)/kernels/$(1)_superblocks.o: ISA_FLAGS += $(SUPERBLOCK_FLAGS)
endef
$(foreach isa,reference $(ISAS),$(eval $(call isa_rules,$(isa))))
$(BUILD)/tests/plain_superblocks.o: ISA_FLAGS = $(FLAGS_$(firstword $(ISAS)))
ifeq ($(MACHINE),x86_64)
$(BUILD)/tests/amx_emulated.o: ISA_FLAGS = $(FLAGS_avx512)
$(BUILD)/tests/amx_bf16_emulated.o $(BUILD)/tests/avx512_bf16_emulated.o: ISA_FLAGS = $(FLAGS_avx2)
endif

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ISA_FLAGS) -c -o $@ $<

# The core alone: the five nouns, tokenizer/, core/, base/, the pages of the KV cache and what plain C needs of
# kernels/. No formats, modes, templates, drafters or SIMD: core/core_absent.c stands for what the others call of
# them. It continues a text of a model.bin and gives the same bytes.
CORE_KERNELS = kernels/reference.c kernels/matmul.c kernels/tensor.c
NOT_IN_CORE = base/base64.c base/sha256.c $(addprefix tokenizer/,characters.c charsmap.c decode_all.c normal_forms.c unicode_ages.c unigram.c)
CORE_SOURCES = $(filter-out $(PROGRAMS:%=%.c) decoder.c $(NOT_IN_CORE),$(wildcard *.c base/*.c core/*.c tokenizer/*.c)) \
	$(CORE_KERNELS) kvcache/kvpages.c
CORE_OBJECTS = $(CORE_SOURCES:%.c=$(BUILD)/core/objects/%.o)
CORE_PACKAGES = libpcre2-8 libutf8proc libxxhash
CORE_PACKAGE_CFLAGS = $(shell pkg-config --cflags $(CORE_PACKAGES))
CORE_LIBS = $(shell pkg-config --libs $(CORE_PACKAGES))
CORE_CFLAGS = -std=c11 -D_GNU_SOURCE $(OPT) $(DEBUG) -fopenmp -ffp-contract=off -fno-math-errno \
	-fno-strict-aliasing -Wall -Wextra -Wshadow $(WERROR) -I. $(CFLAGS) \
	-DVERBATIM_CORE -DISA=reference -Wno-unused-parameter -MMD -MP
core: $(BUILD)/core/run
	@$(CORE_LINES) | tail -1
$(BUILD)/core/run: $(CORE_OBJECTS)
	$(CC) $(CORE_CFLAGS) -o $@ $^ $(LDFLAGS) $(CORE_LIBS) -lm -lpthread
$(BUILD)/core/objects/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CORE_CFLAGS) $(CORE_PACKAGE_CFLAGS) -c -o $@ $<
# Code lines of what `make core` compiles and includes, in all and file by file.
CORE_LINES = scripts/code-lines $$(sed 's/\\$$//' $(CORE_OBJECTS:.o=.d) | tr ' ' '\n' | \
	grep -E '^[a-z0-9_/]+\.[ch]$$' | sort -u)
core-lines: $(BUILD)/core/run
	@$(CORE_LINES)

# The core in WebAssembly, with the story model, for docs/browser (docs/browser.md). It imports nothing and has one
# thread: the compiler ignores OpenMP's directives, and ports/browser/ stands for what the core asks of the system.
WASM_CC = clang
WASM_FLAGS = --target=wasm32-wasi -O2 -msimd128 -std=c11 -D_GNU_SOURCE -ffp-contract=off -fno-math-errno \
	-fno-strict-aliasing -D_WASI_EMULATED_MMAN -D_WASI_EMULATED_SIGNAL -DVERBATIM_CORE -DISA=reference -Wall -Wextra -Wshadow \
	-Wno-unknown-pragmas -Wno-unused-parameter -Wno-unused-variable $(WERROR) -Iports/browser -Ibuild/wasm/include -I. -MMD -MP
WASM_SOURCES = $(filter-out core/core.c base/control_group.c base/machine.c base/threads.c base/mapped.c base/clock.c,$(CORE_SOURCES)) $(wildcard ports/browser/*.c) \
	modes/proof/model_digest.c modes/proof/revisions.c base/sha256.c
WASM_OBJECTS = $(WASM_SOURCES:%.c=build/wasm/core/%.o)
WASM_EXPORTS = $(sort $(shell grep -o 'story_[a-z0-9_]*' ports/browser/story.h))
wasm: build/wasm/browser/embedded.js
build/wasm/libraries.o: scripts/core-libraries
	scripts/core-libraries build/wasm $(WASM_CC) --target=wasm32-wasi
build/wasm/core/%.o: %.c build/wasm/libraries.o
	@mkdir -p $(@D)
	$(WASM_CC) $(WASM_FLAGS) -c -o $@ $<
build/wasm/verbatim.wasm: $(WASM_OBJECTS) build/wasm/libraries.o
	$(WASM_CC) $(WASM_FLAGS) -mexec-model=reactor -Wl,--strip-all $(WASM_EXPORTS:%=-Wl,--export=%) -o $@ $^
build/wasm/browser/embedded.js: build/wasm/verbatim.wasm models/stories.bin README.md scripts/embed $(wildcard docs/browser/*)
	scripts/embed $(@D) $< models/stories.bin

CMOCKA_CFLAGS = $(shell pkg-config --cflags cmocka)
CMOCKA_LIBS = $(shell pkg-config --libs cmocka)
# Helpers of the tests: tests/*.c that are no program of their own.
TEST_HELPERS = $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/test_%.c tests/fuzz_%.c tests/soak_%.c tests/seed_%.c tests/print_%.c tests/measure_%.c tests/attack_%.c tests/slow_network.c tests/suite.c $(RANK_HELPERS),$(wildcard tests/*.c)))
$(BUILD)/tests/%.o: ALL_CFLAGS += $(CMOCKA_CFLAGS)

# Plain C calls the C library for each fused multiply-add, which was a third of some tests' time. Where the processor
# that builds has the instruction, the tests' plain kernels use it, which rounds alike. The plain kernels that the
# program has are one more instruction set of the tests, "portable" (tests/portable.h).
PLAIN = kernels/reference kernels/reference_spin \
	$(patsubst %.c,%.reference,$(filter-out kernels/float.c,$(ISA_SOURCES)))
PORTABLE = $(BUILD)/tests/portable_kernels.o
$(PORTABLE): $(PLAIN:%=$(BUILD)/%.o)
	@mkdir -p $(@D)
	$(CC) -nostdlib -r -o $@ $^
	$(OBJCOPY) --redefine-sym kernels_reference_supported=kernels_portable_runs_anywhere \
		$$($(NM) -g --defined-only $@ | sed -n '/_supported/d; s/.* \(.*\)reference\(.*\)/--redefine-sym \1reference\2=\1portable\2/p') $@
ifneq ($(findstring __FMA__,$(NATIVE)),)
FAST_PLAIN = $(PLAIN:%=$(BUILD)/fma/%.o)
endif
$(BUILD)/fma/%.reference.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(FLAGS_avx2) -DISA=reference -c -o $@ $<
$(BUILD)/fma/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(FLAGS_avx2) -c -o $@ $<
# What has a list of the instruction sets, with one more.
TEST_LISTS = $(ISA_LISTS:%=$(BUILD)/portable/%.o)
WITH_PORTABLE = -D'MORE_ISAS(X)=X(portable, portable)'
$(BUILD)/tests/test_indexer.o: ALL_CFLAGS += $(WITH_PORTABLE)
$(BUILD)/portable/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(WITH_PORTABLE) -c -o $@ $<
IN_TESTS = $(TEST_HELPERS) $(PORTABLE) $(FAST_PLAIN) $(TEST_LISTS)

# The tiers link all test programs in one, tests/suite.c, whose links build/tests/test_NAME are; a
# program that is asked for by its name is linked alone. Each has a main under a name of its own.
SUITE = $(BUILD)/tests/suite
$(BUILD)/tests/test_%.o: ALL_CFLAGS += -Dmain=main_of_$(basename $(@F))
$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(IN_TESTS) $(BUILD)/libverbatim.a
	@rm -f $@
	$(CC) $(ALL_CFLAGS) -Wl,--defsym=main=main_of_$(@F) -o $@ $^ $(CMOCKA_LIBS) $(ALL_LIBS)

# The folder's time changes when a test is added or removed.
$(SUITE).o: ALL_CFLAGS += -D'SUITE(X)=$(TESTS:$(BUILD)/tests/%=X(%))'
$(SUITE).o: tests
SUITE_OBJECTS = $(SUITE).o $(TESTS:%=%.o) $(CLUSTER_TEST_OBJECTS) $(IN_TESTS)
$(SUITE): $(SUITE_OBJECTS) $(BUILD)/libverbatim.a
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(CMOCKA_LIBS) $(ALL_LIBS)
	@for t in $(TESTS); do ln -sf suite $$t; done

# The same programs on a processor whose tiles are emulated, for scripts/test-machines: VERBATIM_BUILD=build/emulated.
# It needs AVX-512.
EMULATED = $(BUILD)/emulated
EMULATED_OBJECTS = $(EMULATED)/kernels/amx.o $(EMULATED)/kernels/amx_bf16.o $(EMULATED)/kernels/cpu.o
$(EMULATED)/kernels/amx.o $(EMULATED)/kernels/amx_bf16.o: ISA_FLAGS = $(FLAGS_avx512)
$(EMULATED)/kernels/%.o: kernels/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ISA_FLAGS) -DAMX_EMULATED -c -o $@ $<
$(PROGRAMS:%=$(EMULATED)/%): $(EMULATED)/%: $(BUILD)/%.o $(EMULATED_OBJECTS) $(BUILD)/libverbatim.a
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(ALL_LIBS)
$(EMULATED)/tests/suite: $(SUITE_OBJECTS) $(EMULATED_OBJECTS) $(BUILD)/libverbatim.a | $(BUILD)/tests/faults.so
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(CMOCKA_LIBS) $(ALL_LIBS)
	@for t in $(TESTS:$(BUILD)/tests/%=$(@D)/%); do ln -sf suite $$t; done
	@ln -sfn ../../tests/faults.so $(@D)/faults.so
	@for f in core decoder; do ln -sfn ../$$f $(EMULATED)/$$f; done
emulated: $(PROGRAMS:%=$(EMULATED)/%) $(EMULATED)/tests/suite

$(BUILD)/tests/fuzz_wire: $(CLUSTER_OBJECTS) $(BUILD)/tests/thread_wire.o $(BUILD)/tests/wire_cases.o
$(BUILD)/tests/fuzz_%: $(BUILD)/tests/fuzz_%.o $(BUILD)/libverbatim.a
	$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer -o $@ $(filter %.o,$^) $(filter %.a,$^) $(ALL_LIBS)

# A library that makes chosen calls of the programs fail; see tests/fault_runs.h.
$(BUILD)/tests/faults.so: tests/faults/shim.c tests/faults/shim.h
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -g -fPIC -shared -Wall -Wextra $(WERROR) -o $@ $<
$(SUITE) $(BUILD)/tests/test_faults $(BUILD)/tests/soak_faults: | $(BUILD)/tests/faults.so

# Each test program runs in the source directory; VERBATIM_BUILD tells where the programs are. Tiers
# take more or less of each sweep (tests/tier.h, tests/README.md). The longest programs start first;
# those that mostly wait for a terminal, a signal or a server stand between ones that compute.
LONGEST = $(patsubst %,$(BUILD)/tests/test_%,chat_terminal reference_logits exactness planted sampler \
	tokenizer_patterns get tokenizer_shared attacks batch faults cluster kernels families attention \
	core dialogue constraint export receipt bench engine inside)
ORDERED_TESTS = $(filter $(TESTS),$(LONGEST)) $(filter-out $(LONGEST),$(TESTS))
# Programs that take more in the tier all than in the tier test, by the table of tests/README.md, which `make
# lint` compares with the code; the others are the same in both.
SWEPT_TESTS = $(addprefix $(BUILD)/tests/,$(shell awk -F'[ |]*[|][ |]*' \
	'/^[|] test_/ && $$5 != $$6 { print $$2 }' tests/README.md | sort -u))
# Programs that compute; the others are about texts, files, options and terminals.
NUMBERS = $(patsubst %,$(BUILD)/tests/test_%,adapters attention batch bench calibrate check core drafts embeddings \
	engine exactness experts export export_gguf families family_keys gguf_families guard indexer inside kernels kv_heads kvcache \
	library live masks mix mtp numbers own planted pools prefill proof quantized quantized_sources receipt reference_logits sampler score \
	scoring snapshots stacks states stored streams target_size tensor why)
# Of these the ones whose numbers are known or compared with a reference; the others compare runs of this build with
# each other.
BITS = $(patsubst %,$(BUILD)/tests/test_%,adapters attention core drafts embeddings engine exactness experts export \
	export_gguf gguf_families indexer kernels kv_heads kvcache live masks mix mtp numbers pools prefill quantized \
	reference_logits sampler snapshots stacks stored streams tensor)
check test: TIER = $@
check-numbers check-bits check-texts check-emulated: TIER = check
# Of the others these generate long texts: minutes in plain C.
LONG_TEXTS = $(patsubst %,$(BUILD)/tests/test_%,batch_files cluster dialogue lookup shards)
check-texts: ORDERED_TESTS := $(filter-out $(filter-out %_guard,$(NUMBERS)) $(LONG_TEXTS),$(ORDERED_TESTS))
check-numbers: ORDERED_TESTS := $(filter $(NUMBERS),$(ORDERED_TESTS))
check-bits: ORDERED_TESTS := $(filter $(BITS),$(ORDERED_TESTS))
test-all test-sweeps: TIER = all
test-sweeps: ORDERED_TESTS := $(filter $(SWEPT_TESTS),$(ORDERED_TESTS))
check-emulated: all core emulated
	scripts/run-tests check $(EMULATED) $(ORDERED_TESTS:$(BUILD)/tests/%=$(EMULATED)/tests/%)
check check-numbers check-bits check-texts test test-all test-sweeps: all core $(SUITE)
	@guard=; if [ $@/$(BUILD) = check/build ]; then \
		JOBS=1 BUILD=$(BUILD) CC="$(CC)" scripts/guard --fast >$(BUILD)/guard.txt 2>&1 & guard=$$!; fi; \
	status=0; VERBATIM_RUNNER="$(TEST_RUNNER)" scripts/run-tests $(TIER) $(BUILD) $(ORDERED_TESTS) || status=1; \
	if [ "$$guard" ]; then wait $$guard || status=1; cat $(BUILD)/guard.txt; fi; exit $$status

# test_guard counts the calls of these functions.
GUARD_WRAPS = barrier_wait GOMP_barrier GOMP_loop_end GOMP_parallel __kmpc_barrier malloc calloc realloc aligned_alloc
$(SUITE) $(EMULATED)/tests/suite $(BUILD)/tests/test_guard: ALL_LIBS += $(GUARD_WRAPS:%=-Wl,--wrap=%)
# soak_drafts counts what its own drafters propose.
$(BUILD)/tests/soak_drafts: ALL_LIBS += -Wl,--wrap=drafting_new

guard: $(BUILD)/run $(BUILD)/export
	BUILD=$(BUILD) CC="$(CC)" scripts/guard

# The same promises at full size: minutes.
$(BUILD)/tests/soak_%: $(BUILD)/tests/soak_%.o $(TEST_HELPERS) $(BUILD)/libverbatim.a
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(CMOCKA_LIBS) $(ALL_LIBS)
soak: all $(SOAKS)
	@failed=; for t in $(SOAKS); do echo "== $$t"; \
		VERBATIM_BUILD=$(BUILD) OMP_WAIT_POLICY=passive $$t || failed="$$failed $$t"; done; \
	echo "== scripts/test-guards"; BUILD=$(BUILD) CC="$(CC)" scripts/test-guards || failed="$$failed test-guards"; \
	echo "== scripts/test-revisions"; VERBATIM_BUILD=$(BUILD) scripts/test-revisions || failed="$$failed test-revisions"; \
	echo "== make check by clang, make check-numbers without optimization"; \
	if command -v clang >/dev/null; then $(MAKE) check BUILD=build/clang CC=clang || failed="$$failed clang"; fi; \
	$(MAKE) check-numbers BUILD=build/O0 OPT=-O0 || failed="$$failed O0"; \
	data=../shared/data/stories260K; if [ -e $$data ]; then echo "== scripts/quantization-table"; \
		scripts/quantization-table --compare $$data $(BUILD) || failed="$$failed quantization-table"; fi; \
	if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
ASAN_TIER = test
# gcc takes minutes for the instrumented kernels of an instruction set. Those that this processor cannot run are
# compiled without: nothing would be found in them here.
MACRO_avx2 = __AVX2__
MACRO_avxvnni = __AVXVNNI__
MACRO_avx512 = __AVX512VNNI__
MACRO_amx = __AMX_INT8__
ABSENT_ISAS = $(foreach isa,$(ISAS_x86_64),$(if $(findstring $(MACRO_$(isa)),$(NATIVE)),,$(isa)))
# Without optimization gcc takes minutes for them as well, and for the hundreds of superblocks' kernels of any set.
ifeq ($(OPT),-O0)
$(patsubst %.c,$(BUILD)/%.o,$(call isa_kernels,$(ABSENT_ISAS)) $(filter %_superblocks.c,$(call isa_kernels,$(ISAS)))): LEVEL = -O1
endif
# -g1: following variables through instrumented vector code takes gcc minutes a file. -no-pie: UBSan's tables hold
# 1.7 million pointers, which a program that can be loaded anywhere computes at each start, in 40 ms.
# The superblocks' kernels are hundreds: with both sanitizers inline gcc compiles an instruction set's for 6 minutes
# and more. Calls of ASan find the same; what UBSan would find there, avx2.c and its like show, made by the same macros.
CHEAP_ASAN = -fno-sanitize=undefined --param asan-instrumentation-with-call-threshold=0
# What kernels/lanes.h says.
LANES_NOT_INLINE = -DLANES_INLINE='static inline __attribute__((unused))'
asan:
	LSAN_OPTIONS=suppressions=tests/leaks.txt $(MAKE) $(ASAN_TIER) BUILD=build/asan OPT=-O1 CFLAGS="$(SANITIZE) -g1 -Wno-format-truncation" LDFLAGS="$(SANITIZE) -no-pie" \
		UNSANITIZED="$(ABSENT_ISAS)" SUPERBLOCK_FLAGS="$(CHEAP_ASAN)" FLAGS_reference="$(LANES_NOT_INLINE)"

# Vector code is long straight lines, at which clang's coverage and sanitizers take minutes a file; no fuzz target
# calls it. clang's -fno-sanitize=all leaves the coverage on.
NO_COVERAGE = -fno-sanitize-coverage=edge,trace-cmp,inline-8bit-counters,pc-table,indirect-calls,stack-depth
fuzz:
	$(MAKE) fuzzers BUILD=build/fuzz CC=clang OPT=-O1 UNSANITIZED="$(ISAS)" NO_SANITIZERS="-fno-sanitize=all $(NO_COVERAGE)" \
		FLAGS_reference="$(LANES_NOT_INLINE)" \
		CFLAGS="$(SANITIZE) -fsanitize=fuzzer-no-link" LDFLAGS="$(SANITIZE)"
	scripts/run-fuzz $(FUZZ_SECONDS) $(FUZZERS:$(BUILD)/%=build/fuzz/%)
fuzzers: $(FUZZERS) $(BUILD)/seeds

# For scripts that compare with a reference implementation.
$(BUILD)/tests/print_%: $(BUILD)/tests/print_%.o $(TEST_HELPERS) $(BUILD)/libverbatim.a
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(CMOCKA_LIBS) $(ALL_LIBS)

# Seeds of a family each are made of the fixtures, not committed.
$(BUILD)/tests/seed_%: $(BUILD)/tests/seed_%.o $(TEST_HELPERS) $(BUILD)/libverbatim.a
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(CMOCKA_LIBS) $(ALL_LIBS)
$(BUILD)/seeds: $(BUILD)/tests/seed_fixtures
	@rm -rf $@
	LSAN_OPTIONS=detect_leaks=0 LLVM_PROFILE_FILE=$(BUILD)/seeds.profraw $< $@

# How much of each reader the fuzz targets reach, over tests/seeds and what `make fuzz` has found.
COVERAGE = -fprofile-instr-generate -fcoverage-mapping
coverage:
	$(MAKE) fuzzers BUILD=build/coverage CC=clang OPT=-O1 \
		CFLAGS="$(COVERAGE)" LDFLAGS="$(COVERAGE)"
	scripts/coverage build/coverage

# ThreadSanitizer over generation, a batch and a conversion; see scripts/tsan.
tsan:
	scripts/tsan

FORMATTED = $(wildcard *.[ch] $(FOLDERS:%=%/*.[ch]) ports/browser/*.[ch] ports/browser/*/*.h ports/cluster/*.[ch] docs/*.c tests/*.[ch] tests/faults/*.[ch])
format:
	clang-format -i $(FORMATTED)
lint: all $(BUILD)/core/run
	scripts/cases --table
	scripts/readme-counts $$($(CORE_LINES) | awk 'END { print $$1 }')
	scripts/family-report --check
	scripts/check-includes
	scripts/check-texts
	scripts/circles $(BUILD)
	scripts/check-names $(BUILD)
	CC="$(CC)" scripts/test-checks
	clang-format --dry-run -Werror $(FORMATTED)
	cppcheck -j $$(nproc) --quiet --std=c11 --error-exitcode=1 --inline-suppr \
		--suppress=missingIncludeSystem --suppress=invalidPointerCast \
		--enable=warning,portability -I. $(wildcard *.c $(filter-out kernels/%,$(FOLDERS:%=%/*.c)))
	cppcheck -j $$(nproc) --quiet --std=c11 --error-exitcode=1 --inline-suppr \
		--suppress=missingIncludeSystem --suppress=invalidPointerCast \
		--enable=warning,portability -DVERBATIM_MPI -I. $(wildcard ports/cluster/*.c)

VERSION = $(shell sed -n 's/^\#define VERBATIM_VERSION "\(.*\)"/\1/p' session/options.h)
# Whatever a document has a link to is a document (tests/test_install.c).
DOCS = README.md LICENSE CHANGELOG.md SECURITY.md decoder.c verbatim.h models/README.md $(wildcard docs/*.md docs/notes/*.md docs/*.c)
# Scripts and Python packages that the documents name, without their tests.
INTEGRATIONS = $(filter-out %/test_server.py %/soak_server.py, \
	$(wildcard $(addprefix integrations/,*/*.py */*.md */*.toml */*.pth */verbatim_lm*/*.py */verbatim_lm/py.typed)))
# What `make install` makes, under PREFIX.
COMPLETED = verbatim verbatim-export verbatim-bench verbatim-get verbatim-serve
INSTALLED = $(COMPLETED:%=bin/%) share/verbatim/stories.bin $(COMPLETED:%=share/man/man1/%.1) \
	$(COMPLETED:%=share/bash-completion/completions/%) share/zsh/site-functions/_verbatim \
	share/doc/verbatim/integrations $(DOCS:%=share/doc/verbatim/%) $(INTEGRATIONS:%=share/verbatim/%)

# Recipes take PREFIX and DESTDIR from the environment, where any character can stand.
install install-library uninstall: export INSTALL_PREFIX = $(PREFIX)
install install-library uninstall: export INSTALL_ROOT = $(DESTDIR)$(PREFIX)
# Where the library goes and is found: Debian's is PREFIX/lib/x86_64-linux-gnu, Fedora's PREFIX/lib64.
LIBDIR = $(PREFIX)/lib
install install-library uninstall: export INSTALL_FOUND_IN = $(LIBDIR)
install install-library uninstall: export INSTALL_LIBDIR = $(DESTDIR)$(LIBDIR)
MAKE_DIRECTORIES = for d in $(sort $(dir $(1))); do install -d "$$INSTALL_ROOT/$$d" || exit 1; done

# FROM=static/ installs the programs of `make static`.
INSTALL_PROGRAM = install -m 755
install: all
	$(call MAKE_DIRECTORIES,$(INSTALLED))
	$(INSTALL_PROGRAM) $(BUILD)/$(FROM)run "$$INSTALL_ROOT/bin/verbatim"
	$(INSTALL_PROGRAM) $(BUILD)/$(FROM)export "$$INSTALL_ROOT/bin/verbatim-export"
	$(INSTALL_PROGRAM) $(BUILD)/$(FROM)bench "$$INSTALL_ROOT/bin/verbatim-bench"
	install -m 755 get "$$INSTALL_ROOT/bin/verbatim-get"
	install -m 755 serve "$$INSTALL_ROOT/bin/verbatim-serve"
	install -m 644 models/stories.bin "$$INSTALL_ROOT/share/verbatim/stories.bin"
	install -m 644 $(COMPLETED:%=docs/man/%.1) "$$INSTALL_ROOT/share/man/man1"
	install -m 644 docs/completions/verbatim.bash "$$INSTALL_ROOT/share/bash-completion/completions/verbatim"
	for p in $(filter-out verbatim,$(COMPLETED)); do \
		ln -sf verbatim "$$INSTALL_ROOT/share/bash-completion/completions/$$p" || exit 1; done
	install -m 644 docs/completions/_verbatim "$$INSTALL_ROOT/share/zsh/site-functions/_verbatim"
	for f in $(INTEGRATIONS); do install -m 644 $$f "$$INSTALL_ROOT/share/verbatim/$$f" || exit 1; done
	chmod 755 "$$INSTALL_ROOT/share/verbatim/integrations/openai/verbatim_server.py"
	for f in $(DOCS); do install -m 644 $$f "$$INSTALL_ROOT/share/doc/verbatim/$$f" || exit 1; done
	ln -sfn ../../verbatim/integrations "$$INSTALL_ROOT/share/doc/verbatim/integrations"
install-strip: INSTALL_PROGRAM = install -s --strip-program='$(STRIP)' -m 755
install-strip: install

# The library with its header: installed with the programs once `make shared` has built it.
LIBRARY = include/verbatim.h share/man/man3/verbatim.3 share/doc/verbatim/docs/library_example.c
IN_LIBDIR = libverbatim.so.1 libverbatim.so pkgconfig/verbatim.pc
install: $(if $(wildcard $(SHARED)/libverbatim.so.1),install-library)
install-library: shared
	$(call MAKE_DIRECTORIES,$(LIBRARY))
	install -d "$$INSTALL_LIBDIR/pkgconfig"
	install -m 644 verbatim.h "$$INSTALL_ROOT/include"
	$(INSTALL_PROGRAM) -m 644 $(SHARED)/libverbatim.so.1 "$$INSTALL_LIBDIR"
	ln -sf libverbatim.so.1 "$$INSTALL_LIBDIR/libverbatim.so"
	quoted() { printf %s "$$1" | sed 's/[\\&|]/\\&/g'; } && \
		sed "s|@PREFIX@|$$(quoted "$$INSTALL_PREFIX")|; s|@LIBDIR@|$$(quoted "$$INSTALL_FOUND_IN")|; s|@VERSION@|$(VERSION)|" \
		ports/library/verbatim.pc.in >"$$INSTALL_LIBDIR/pkgconfig/verbatim.pc"
	install -m 644 docs/man/verbatim.3 "$$INSTALL_ROOT/share/man/man3"
	install -m 644 docs/library_example.c "$$INSTALL_ROOT/share/doc/verbatim/docs"

uninstall:
	for f in $(INSTALLED) $(LIBRARY); do rm -f "$$INSTALL_ROOT/$$f" || exit 1; done
	for f in $(IN_LIBDIR); do rm -f "$$INSTALL_LIBDIR/$$f" || exit 1; done
	rm -rf "$$INSTALL_ROOT/share/verbatim/integrations"
	-cd "$$INSTALL_ROOT/share" && rmdir verbatim doc/verbatim/docs doc/verbatim/models doc/verbatim 2>/dev/null
	@echo 'kept: each user'"'"'s conversions, in ~/.cache/verbatim or, where it is set, $$XDG_CACHE_HOME/verbatim' >&2

# Where the archives and packages go, and the date that their files carry: the commit's.
DIST = dist
dist deb wheel release: export SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),0)
dist: static $(BUILD)/static/NOTICES
	@test -n "$(VERSION)"
	CC="$(CC)" BUILD=$(BUILD) MAKE="$(MAKE)" scripts/dist $(VERSION) $(DIST)

# A Python package with the static programs, for any Linux of this machine's kind: docs/python.md.
PYTHON = python3
wheel: static $(BUILD)/static/NOTICES
	@mkdir -p $(DIST)
	@rm -rf integrations/python/build integrations/python/*.egg-info
	umask 022; VERBATIM_PROGRAMS="$(CURDIR)/$(BUILD)/static" VERBATIM_PLATFORM=manylinux2014_$(MACHINE) \
		$(PYTHON) -m pip wheel -q --no-deps -w $(DIST) ./integrations/python
	@ls $(DIST)/verbatim_lm-*.whl

deb: all
	@test -n "$(VERSION)"
	BUILD=$(BUILD) MAKE="$(MAKE)" scripts/deb $(VERSION) $(DIST)

# Everything that a release publishes, from a clean tag alone: docs/releasing.md. DRY_RUN=1 takes any state.
release:
	@test -n "$(VERSION)"
	MAKE="$(MAKE)" scripts/release $(VERSION)

clean:
	rm -rf build $(PROGRAMS)

.PHONY: all shared core core-lines wasm mpi $(PROGRAMS) check test test-all test-sweeps soak guard asan fuzz fuzzers coverage tsan format lint install install-strip install-library uninstall deb wheel static dist release clean
.SECONDARY:

-include $(OBJECTS:.o=.d) $(PROGRAMS:%=$(BUILD)/%.d) $(wildcard $(BUILD)/tests/*.d $(BUILD)/docs/*.d) \
	$(CORE_OBJECTS:.o=.d) $(MPI_OBJECTS:.o=.d) $(WASM_OBJECTS:.o=.d) $(FAST_PLAIN:.o=.d) $(TEST_LISTS:.o=.d)
