# make                         builds library objects and the demo, optimised, in build/
# make lib                     builds the three libraries as one file, build/libshoal.a
# make demo                    runs a server, clients and bots, some over a bad network; compares their worlds
# make test [config=sanitize]  runs all tests; only=ecs: only tests/ecs; only=ecs/world: only its files whose
#                              name begins with world; config=tsan: with the thread sanitizer; with
#                              config=release and g++ also vendor.sh, tutorial.sh, documents.sh and
#                              does_not_compile.sh
# make bench                   builds build/bench/*
# make secrets                 runs ciphers, handshakes and tokens under valgrind, which reports branches and
#                              indices that depend on secrets
# make fuzz                    builds build/fuzz/* for clang's libFuzzer
# make windows                 builds the libraries and the demo for 64-bit Windows, with mingw-w64
# make cross [machines=s390x]  builds clients for i686, aarch64, s390x and windows, lets them join a server of
#                              this machine, and compares their worlds; without machines=, for those whose
#                              tools are installed
# make clean                   removes build/
# CXX=clang++ selects the compiler; each compiler and config has its own object folder.

ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(or $(shell nproc 2> /dev/null),2)
endif

.DEFAULT_GOAL := all
config ?= release
only ?=
filter ?= *
ifeq ($(origin CXX),default)
CXX := g++
endif

warnings := -Wall -Wextra -Wshadow -Wconversion -Werror
# g++ takes the included sources of a unit for headers, which should have no unnamed namespaces.
warnings += $(if $(findstring clang,$(CXX)),,-Wno-subobject-linkage)
flags_release := -O2 -DNDEBUG
flags_debug := -O0 -g
flags_sanitize := -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
flags_fuzz := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all
flags_tsan := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
flags_i686 := $(flags_release) -mfpmath=387
flags_aarch64 := $(flags_release)
flags_s390x := $(flags_release)
flags_windows := $(flags_release)
ifeq ($(flags_$(config)),)
$(error config=$(config) is not one of release, debug, sanitize, tsan)
endif

variant := $(config)$(if $(findstring clang,$(CXX)),-clang)
out := build/$(variant)
# Release programs of the default compiler have short paths, which the documentation names.
bin := $(if $(filter release,$(variant)),build,$(out))
CXXFLAGS += -std=c++20 $(flags_$(config)) $(warnings) -I. -MMD -MP
LDFLAGS += $(filter -fsanitize=%,$(flags_$(config))) -pthread
# Emulators find no shared libraries of their machine. A static program may not resolve host names, of which the
# linker warns; make cross uses addresses.
ifneq ($(filter i686 aarch64 s390x,$(config)),)
LDFLAGS += -static -Wl,--no-warnings
endif
ifeq ($(config),windows)
LDFLAGS += -static
LDLIBS += -lws2_32 -lbcrypt
exe := .exe
endif

# All sources of a folder are compiled as one unit, which includes them: most of a compiler's time goes into
# headers and templates. A source with flags of its own is compiled alone.
# $(call unit,NAME,SOURCES,AWK CONDITION ON THE SOURCE'S NUMBER) defines the rule that makes NAME.cpp. Names of
# units have a hyphen, which names of sources do not have.
define unit
$(1).cpp: FORCE
	@mkdir -p $$(@D)
	@for source in $(2); do echo "#include \"$$$$source\""; done | awk '$(or $(3),1)' > $$@.new
	@if cmp -s $$@.new $$@; then rm $$@.new; else mv $$@.new $$@; fi
endef
FORCE:

# Slow models are optimised even with sanitizers.
slow_sources := $(if $(filter sanitize,$(config)),$(addprefix tests/,ecs/support/race net/naive_decoder_test net/attacker_test net/ack_window_test))
alone := $(slow_sources:%=%.cpp) net/crypto/primitives.cpp tests/net/crypto_test.cpp tests/net/crypto_portable_test.cpp
alone += $(wildcard tests/*/readme_test.cpp tests/*/macros_test.cpp) tests/replication/rehearsal_test.cpp
with_exceptions := tests/ecs/exceptions_test tests/replication/exceptions_test
alone += tests/ecs/plugin_test.cpp $(with_exceptions:%=%.cpp)
library_folders := $(patsubst %/,%,$(sort $(dir $(wildcard $(foreach folder,ecs net replication,$(folder)/*.cpp $(folder)/*/*.cpp)))))
$(foreach folder,$(library_folders),$(eval $(call unit,$(out)/$(folder)/unit-all,$(filter-out $(alone),$(wildcard $(folder)/*.cpp)))))
library := $(library_folders:%=$(out)/%/unit-all.o) $(out)/net/crypto/primitives.o
demo_mains := demo/server.cpp demo/client.cpp demo/backend.cpp demo/compare.cpp demo/replay.cpp
$(eval $(call unit,$(out)/demo/unit-all,$(filter-out $(demo_mains),$(wildcard demo/*.cpp))))
demo_shared := $(out)/demo/unit-all.o
$(eval $(call unit,$(out)/tests/sim/unit-all,$(filter-out %_test.cpp,$(wildcard tests/sim/*.cpp))))
test_shared := $(out)/tests/sim/unit-all.o $(out)/tests/support/allocations.o
ecs_support := $(patsubst %.cpp,$(out)/%.o,$(wildcard tests/ecs/support/*.cpp))
$(eval $(call unit,$(out)/tests/net/support/unit-all,$(wildcard tests/net/support/*.cpp)))
net_support := $(out)/tests/net/support/unit-all.o
fuzz_support := $(patsubst %.cpp,$(out)/%.o,$(filter-out %_test.cpp,$(wildcard tests/fuzz/*.cpp)))
folder_of_tests := $(firstword $(subst /, ,$(only)))
ifneq ($(filter ecs net,$(folder_of_tests)),)
test_library := $(filter $(out)/$(folder_of_tests)/%,$(library)) $(out)/tests/support/allocations.o $($(folder_of_tests)_support)
else
test_library := $(library) $(test_shared) $(net_support)
test_library += $(if $(filter-out demo,$(folder_of_tests)),,$(demo_shared))
test_library += $(if $(filter-out fuzz,$(folder_of_tests)),,$(fuzz_support) $(ecs_support))
endif
# All tests are compiled in a few units for each folder, some tests one by one.
ifeq ($(only),)
test_folders := $(patsubst tests/%/,%,$(sort $(dir $(wildcard tests/*/*_test.cpp))))
units_ecs := 0 1
units_net := 0 1 2 3 4
units_replication := 0 1
test_units := $(foreach folder,$(test_folders),$(addprefix $(folder)/unit-,$(or $(units_$(folder)),0)))
folder_of = $(patsubst %/,%,$(dir $(1)))
$(foreach name,$(test_units),$(eval $(call unit,$(out)/tests/$(name),\
    $(filter-out $(alone),$(wildcard tests/$(call folder_of,$(name))/*_test.cpp)),\
    NR % $(words $(or $(units_$(call folder_of,$(name))),0)) == $(lastword $(subst -, ,$(name))))))
tests := $(test_units:%=$(out)/tests/%.o) $(patsubst %.cpp,$(out)/%.o,$(filter %_test.cpp,$(alone)))
else
tests := $(patsubst %.cpp,$(out)/%.o,$(wildcard tests/$(only)/*_test.cpp tests/$(only)*_test.cpp))
ifeq ($(tests),)
$(error only=$(only) names no test)
endif
endif
test_program := $(out)/tests/shoal_tests$(if $(only),_$(subst /,_,$(only)))
benches := $(patsubst tests/bench/%.cpp,$(bin)/bench/%,$(wildcard tests/bench/*.cpp))
demos := $(patsubst demo/%.cpp,$(bin)/demo/%$(exe),$(demo_mains))

.PHONY: all lib demo test bench secrets fuzz fuzzers windows cross clean
all: $(library) $(demos)

lib: $(bin)/libshoal.a

$(bin)/libshoal.a: $(library)
	@mkdir -p $(@D)
	@echo archive $@
	@rm -f $@
	@$(AR) rcs $@ $^

demo: $(demos)
	@sh demo/demo.sh $(bin)/demo

test: $(test_program) $(if $(only)$(filter-out release,$(variant)),,$(bin)/libshoal.a)
	@sh tests/run.sh $< '$(filter)'
	$(if $(only)$(filter-out release,$(variant)),,@sh tests/documents.sh)
	$(if $(only)$(filter-out release,$(variant)),,@CXX="$(CXX)" sh tests/does_not_compile.sh)
	$(if $(only)$(filter-out release,$(variant)),,@CXX="$(CXX)" sh tests/vendor.sh $(out)/vendor)
	$(if $(only)$(filter-out release,$(variant)),,@CXX="$(CXX)" sh tests/tutorial.sh $(out)/tutorial $(bin)/libshoal.a)

bench: $(benches)

secrets: $(out)/secrets/crypto $(out)/secrets/crypto_portable
	@for program in $^; do valgrind -q --error-exitcode=1 $$program || exit 1; done

fuzz:
	@$(MAKE) --no-print-directory CXX=clang++ config=fuzz fuzzers

fuzzers: $(patsubst $(out)/tests/fuzz/%.o,build/fuzz/%,$(fuzz_support))

build/fuzz/ecs: $(ecs_support)

build/fuzz/%: $(out)/tests/fuzz/%.o $(library)
	@mkdir -p $(@D)
	@echo link $@
	@$(CXX) $^ -o $@ $(LDFLAGS) -fsanitize=fuzzer -lgtest

# The ciphers take most of the fuzzers' time. Other tests run them with sanitizers.
ifeq ($(config),fuzz)
$(out)/net/crypto/primitives.o: CXXFLAGS += -O2 -fno-sanitize=all
else
# One test program runs the corpora of all fuzzers.
$(fuzz_support): private CXXFLAGS += -DLLVMFuzzerTestOneInput=fuzz_$(basename $(@F))
endif

# Most tests take longer to compile than to run, so they are compiled without optimisation, without exceptions,
# and with a precompiled header. Models, simulated worlds and networks are optimised a little. In other configs
# than release and debug, either all quick tests are or none. Slow models are optimised in all configs.
slow_models := $(slow_sources:%=$(out)/%.o)
slow_models += $(if $(filter sanitize,$(config)),$(out)/tests/sim/unit-all.o $(net_support))
quick_tests := $(filter-out $(slow_models) $(with_exceptions:%=$(out)/%.o),$(tests) $(test_shared) $(ecs_support) $(net_support) $(fuzz_support))
optimised_release := ecs/support/% net/% sim/unit-all.o
optimised_debug := $(optimised_release)
optimised_tsan := %
optimised_fuzz := %
optimised := $(filter $(optimised_$(config):%=$(out)/tests/%),$(quick_tests))
prelude := $(out)/tests/prelude
# $(call quick,LEVEL): flags for quick tests with this level of optimisation.
quick = $(1) -fno-exceptions -include $(prelude)$(1).h
$(optimised): | $(prelude)-O1.h.gch
$(optimised): private CXXFLAGS += $(call quick,-O1)
$(filter-out $(optimised),$(quick_tests)): | $(prelude)-O0.h.gch
$(filter-out $(optimised),$(quick_tests)): private CXXFLAGS += $(call quick,-O0)
$(slow_models): private CXXFLAGS += -O2

# Shared libraries that a test loads and unloads. g++ has two models of symbols that are unique in a process.
plugin_models := plain $(if $(findstring clang,$(CXX)),,unique)
plugins := $(foreach model,$(plugin_models),$(patsubst %,$(out)/tests/ecs/plugins/$(model)_%.so,1 2 3))
plugin_flags = -O1 -fPIC -shared -DVERSION=$(lastword $(subst _, ,$(basename $@)))
plugin_flags += $(if $(findstring clang,$(CXX)),,$(if $(findstring plain,$@),-fno-gnu-unique))
plugin_flags += $(if $(filter Darwin,$(shell uname)),-undefined dynamic_lookup)
$(plugins): tests/ecs/plugins/plugin.cpp tests/ecs/plugins/plugin.h $(wildcard ecs/*.h) Makefile
	@mkdir -p $(@D)
	@echo link $@
	@$(CXX) $(filter-out -MMD -MP,$(CXXFLAGS)) $(plugin_flags) $< -o $@ $(LDFLAGS)
$(out)/tests/ecs/plugin_test.o: | $(plugins)
$(out)/tests/ecs/plugin_test.o: private CXXFLAGS += -DPLUGINS='"$(dir $(firstword $(plugins)))"'

# The snippets of the README.md of a library and of its rooms, and of net/ALONE.md.
readme_tests := $(patsubst %,tests/%/readme_test.cpp,ecs net replication) tests/replication/rehearsal_test.cpp
$(foreach folder,ecs net replication,$(eval $(out)/tests/$(folder)/readme_test.o:\
    $(patsubst %/README.md,$(out)/readme/%/made,$(wildcard $(folder)/README.md $(folder)/*/README.md))))
$(readme_tests:%.cpp=$(out)/%.o): private CXXFLAGS += -I$(out)

define take_snippets
@sh tests/snippets.sh $< $(@D) $(readme_tests)
@touch $@
endef
$(out)/readme/%/made: %/README.md tests/snippets.sh $(readme_tests)
	$(take_snippets)
$(out)/readme/net/alone/made: net/ALONE.md tests/snippets.sh $(readme_tests)
	$(take_snippets)
$(out)/tests/net/readme_test.o: $(out)/readme/net/alone/made

# The parts of the tutorial's game.
$(out)/tests/replication/rehearsal_test.o: $(out)/tutorial_parts/made $(out)/readme/replication/rehearsal/made
$(out)/tutorial_parts/made: tests/tutorial_parts.sh $(wildcard demo/tutorial/*)
	@sh tests/tutorial_parts.sh demo/tutorial $(@D)
	@touch $@

# All headers of a folder, behind the macros of other systems.
$(foreach folder,ecs net replication,$(eval $(call unit,$(out)/headers/$(folder),$(wildcard $(folder)/*.h $(folder)/*/*.h))))
$(foreach folder,ecs net replication,$(eval $(out)/tests/$(folder)/macros_test.o: $(out)/headers/$(folder).cpp))
$(out)/tests/%/macros_test.o: private CXXFLAGS += -I$(out)

$(prelude)%.h.gch: tests/prelude.h Makefile
	@mkdir -p $(@D)
	@echo compile $@
	@cp $< $(@:.gch=)
	@$(CXX) $(CXXFLAGS) $* -fno-exceptions -x c++-header $(@:.gch=) -o $@

windows:
	@$(MAKE) --no-print-directory CXX=x86_64-w64-mingw32-g++-posix config=windows all

cross: $(bin)/demo/server $(bin)/demo/compare
	+@MAKE="$(MAKE)" sh demo/cross.sh $(bin)/demo $(machines)

# The benchmark compares vectorised loops over plain arrays with the same loops over queries. A loop of a few
# bytes takes twice as long if it straddles a cache line: g++ aligns them all, clang++ lacks the flag.
$(out)/tests/bench/ecs.o: CXXFLAGS += -O3 $(if $(findstring clang,$(CXX)),,-falign-labels=32)

clean:
	rm -rf build

# The code for compilers without 128-bit integers and vectors.
$(out)/secrets/crypto_portable.o: CXXFLAGS += -U__SIZEOF_INT128__
$(out)/secrets/crypto.o $(out)/secrets/crypto_portable.o: net/crypto/primitives.cpp Makefile
	@mkdir -p $(@D)
	@echo compile $@
	@$(CXX) $(CXXFLAGS) -include tests/secrets/declassify.h -c $< -o $@

$(out)/secrets/%: $(out)/tests/secrets/memory.o $(out)/secrets/%.o $(filter-out %/primitives.o,$(filter $(out)/net/%,$(library)))
	@mkdir -p $(@D)
	@echo link $@
	@$(CXX) $^ -o $@ $(LDFLAGS)

# The library comes first, so that its optimised versions of inline functions are linked.
$(test_program): $(test_library) $(tests)
	@mkdir -p $(@D)
	@echo link $@
	@$(CXX) $^ -o $@ $(LDFLAGS) -rdynamic -lgtest_main -lgtest -ldl

$(bin)/bench/paths: $(net_support)
$(bin)/bench/train: $(demo_shared)

$(bin)/bench/%: $(out)/tests/bench/%.o $(out)/tests/support/allocations.o $(library)
	@mkdir -p $(@D)
	@echo link $@
	@$(CXX) $^ -o $@ $(LDFLAGS)

$(bin)/demo/%$(exe): $(out)/demo/%.o $(demo_shared) $(library)
	@mkdir -p $(@D)
	@echo link $@
	@$(CXX) $^ -o $@ $(LDFLAGS) $(LDLIBS)

compile = @mkdir -p $(@D); echo compile $@; $(CXX) $(CXXFLAGS) -c $< -o $@
$(out)/%.o: %.cpp Makefile
	$(compile)

# A unit.
$(out)/%.o: $(out)/%.cpp Makefile
	$(compile)

.PRECIOUS: $(out)/%.o
-include $(shell find build -name '*.d' 2>/dev/null)
