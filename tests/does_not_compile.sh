#!/bin/sh
# Checks that does_not_compile.cpp compiles, and that each of its wrong lines does not, with a sentence that says why.
# usage: tests/does_not_compile.sh
set -u
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 1
file=tests/does_not_compile.cpp
compile() { ${CXX:-g++} -std=c++20 -fsyntax-only -Wall -Wextra -Wshadow -Wconversion -I. "$@" "$file" 2>&1; }
unlimited=$(case ${CXX:-g++} in *clang*) echo -ferror-limit=0 ;; esac)
fail() { echo "$file: FAILED: $1"; exit 1; }
right=$(compile) && [ -z "$right" ] || fail "the right code: $right"
wrong=$(compile -DWRONG $unlimited) && fail "the wrong code compiles"
grep -q '// error: ' "$file" || fail "no wrong lines"
sed -n 's|.*// error: ||p' "$file" | sort | uniq -c | while read -r count sentence; do
    found=$(echo "$wrong" | grep 'error: static.assert' | grep -cF "$sentence")
    [ "$found" -eq "$count" ] || fail "'$sentence' $found times, not $count: $wrong"
done || exit 1
echo "$file: passed"
