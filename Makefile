# make                         library objects and the demo, optimised, in build/
# make demo                    a server and two clients, one over a bad network; compares their worlds
# make test [config=sanitize]  every test; only=ecs builds and runs just tests/ecs, only=ecs/world just
#                              its files that begin with world; in release also the vendoring test;
#                              config=tsan watches threads
# make bench                   builds build/bench/*, runs nothing
# make secrets                 runs ciphers, handshakes and tokens under valgrind, which reports branches and
#                              indices on secrets
# make fuzz                    builds build/fuzz/*, which clang's libFuzzer drives, runs nothing
# make windows                 the libraries and the demo's server for 64-bit Windows, by mingw-w64
# make clean
# CXX=clang++ selects the compiler; each compiler and config has its own object folder.

ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(or $(shell nproc 2> /dev/null),2)
endif

config ?= release
only ?=
filter ?= *
ifeq ($(origin CXX),default)
CXX := g++
endif

warnings := -Wall -Wextra -Wshadow -Wconversion -Werror
flags_release := -O2 -DNDEBUG
flags_debug := -O0 -g
flags_sanitize := -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
flags_fuzz := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all
flags_tsan := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
flags_windows := $(flags_release)
ifeq ($(flags_$(config)),)
$(error config=$(config) is not one of release, debug, sanitize, tsan)
endif

variant := $(config)$(if $(findstring clang,$(CXX)),-clang)
out := build/$(variant)
# Release binaries of the default compiler have the short, documented paths.
bin := $(if $(filter release,$(variant)),build,$(out))
CXXFLAGS += -std=c++20 $(flags_$(config)) $(warnings) -I. -MMD -MP
LDFLAGS += $(filter -fsanitize=%,$(flags_$(config))) -pthread

library := $(patsubst %.cpp,$(out)/%.o,$(wildcard $(foreach folder,ecs net replication,$(folder)/*.cpp $(folder)/*/*.cpp)))
demo_mains := demo/server.cpp demo/client.cpp demo/backend.cpp demo/compare.cpp
demo_shared := $(patsubst %.cpp,$(out)/%.o,$(filter-out $(demo_mains),$(wildcard demo/*.cpp)))
test_sources := $(if $(only),$(wildcard tests/$(only)/*_test.cpp tests/$(only)*_test.cpp),$(wildcard tests/*/*_test.cpp))
test_shared := $(patsubst %.cpp,$(out)/%.o,$(filter-out %_test.cpp,$(wildcard tests/sim/*.cpp tests/support/*.cpp)))
net_support := $(patsubst %.cpp,$(out)/%.o,$(wildcard tests/net/support/*.cpp))
library_of_tests := $(filter ecs net,$(firstword $(subst /, ,$(only))))
ifneq ($(library_of_tests),)
test_library := $(filter $(out)/$(library_of_tests)/%,$(library)) $(out)/tests/support/allocations.o $(if $(filter net,$(library_of_tests)),$(net_support))
else
test_library := $(library) $(test_shared) $(net_support) $(if $(filter demo,$(only)),$(demo_shared),$(if $(only),,$(demo_shared)))
endif
tests := $(patsubst %.cpp,$(out)/%.o,$(test_sources))
test_program := $(out)/tests/shoal_tests$(if $(only),_$(subst /,_,$(only)))
benches := $(patsubst tests/bench/%.cpp,$(bin)/bench/%,$(wildcard tests/bench/*.cpp))
demos := $(patsubst demo/%.cpp,$(bin)/demo/%,$(demo_mains))

.PHONY: all demo test bench secrets fuzz fuzzers windows windows_programs clean
all: $(library) $(demos)

demo: $(demos)
	@sh demo/demo.sh $(bin)/demo

test: $(test_program)
	@sh tests/run.sh $< '$(filter)'
	$(if $(only)$(filter-out release,$(variant)),,@CXX="$(CXX)" sh tests/vendor.sh $(out)/vendor)

bench: $(benches)

secrets: $(out)/secrets/crypto $(out)/secrets/crypto_portable
	@for program in $^; do valgrind -q --error-exitcode=1 $$program || exit 1; done

fuzz:
	@$(MAKE) --no-print-directory CXX=clang++ config=fuzz fuzzers

fuzzers: $(patsubst tests/fuzz/%.cpp,build/fuzz/%,$(wildcard tests/fuzz/*.cpp))

build/fuzz/%: $(out)/tests/fuzz/%.o $(library)
	@mkdir -p $(@D)
	@echo link $@
	@$(CXX) $^ -o $@ $(LDFLAGS) -fsanitize=fuzzer -lgtest

# The ciphers, which other tests sanitize, take most of the fuzzers' time.
ifeq ($(config),fuzz)
$(out)/net/crypto/primitives.o: CXXFLAGS += -O2 -fno-sanitize=all
endif

# Tests take longer to compile than to run: they are hardly optimised, and read the headers that most of them
# include only once. The exceptions spend their time in models of their own.
test_level := $(if $(filter sanitize,$(config)),-O0,-O1)
slow_models := $(if $(filter sanitize,$(config)),$(patsubst %,$(out)/tests/%_test.o,ecs/race net/naive_decoder net/attacker net/ack_window))
quick_tests := $(filter-out $(slow_models),$(tests) $(test_shared) $(net_support))
prelude := $(out)/tests/prelude.h
$(quick_tests): | $(prelude).gch
$(quick_tests): private CXXFLAGS += $(test_level) -include $(prelude)
$(slow_models): private CXXFLAGS += -O2

$(prelude).gch: tests/prelude.h Makefile
	@mkdir -p $(@D)
	@echo compile $@
	@cp $< $(prelude)
	@$(CXX) $(CXXFLAGS) $(test_level) -x c++-header $(prelude) -o $@

windows:
	@$(MAKE) --no-print-directory CXX=x86_64-w64-mingw32-g++-posix config=windows windows_programs

windows_programs: $(out)/demo/server.exe

# The terminal is POSIX's, and the server does without.
$(out)/demo/server.exe: $(out)/demo/server.o $(filter-out %/terminal.o %/view.o %/screen.o,$(demo_shared)) $(library)
	@mkdir -p $(@D)
	@echo link $@
	@$(CXX) $^ -o $@ -static $(LDFLAGS) -lws2_32 -lbcrypt

# Loops over bare arrays, and the same ones over queries, are compared vectorised. A loop of a few bytes takes
# twice as long if it straddles a cache line: g++ aligns them all, clang++ lacks the flag.
$(out)/tests/bench/ecs.o: CXXFLAGS += -O3 $(if $(findstring clang,$(CXX)),,-falign-labels=32)

clean:
	rm -rf build

# What compilers without 128-bit numbers and vectors get.
$(out)/secrets/crypto_portable.o: CXXFLAGS += -U__SIZEOF_INT128__
$(out)/secrets/crypto.o $(out)/secrets/crypto_portable.o: net/crypto/primitives.cpp Makefile
	@mkdir -p $(@D)
	@echo compile $@
	@$(CXX) $(CXXFLAGS) -include tests/secrets/declassify.h -c $< -o $@

$(out)/secrets/%: $(out)/tests/secrets/memory.o $(out)/secrets/%.o $(filter-out %/primitives.o,$(filter $(out)/net/%,$(library)))
	@mkdir -p $(@D)
	@echo link $@
	@$(CXX) $^ -o $@ $(LDFLAGS)

# The library first: of inline functions that both have, its optimised ones stay.
$(test_program): $(test_library) $(tests)
	@mkdir -p $(@D)
	@echo link $@
	@$(CXX) $^ -o $@ $(LDFLAGS) -lgtest_main -lgtest

$(bin)/bench/paths: $(net_support)

$(bin)/bench/%: $(out)/tests/bench/%.o $(out)/tests/support/allocations.o $(library)
	@mkdir -p $(@D)
	@echo link $@
	@$(CXX) $^ -o $@ $(LDFLAGS)

$(bin)/demo/%: $(out)/demo/%.o $(demo_shared) $(library)
	@mkdir -p $(@D)
	@echo link $@
	@$(CXX) $^ -o $@ $(LDFLAGS)

$(out)/%.o: %.cpp Makefile
	@mkdir -p $(@D)
	@echo compile $@
	@$(CXX) $(CXXFLAGS) -c $< -o $@

.PRECIOUS: $(out)/%.o
-include $(shell find build -name '*.d' 2>/dev/null)
