#!/bin/sh
# How long the smallest program that uses a world takes to compile: user time, the median of three.
#
#   sh tests/bench/ecs_compile.sh
#
#   ecs.compile.gcc_include.s  only the includes, -O0
#   ecs.compile.gcc_O0.s       a world, an entity, a query, a get; also gcc_O2, clang_O0, clang_O2
#   ecs.compile.lines          after the preprocessor
set -e
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/include.cpp" <<'END'
#include "ecs/query.h"
#include "ecs/world.h"
END
cat "$work/include.cpp" - >"$work/minimal.cpp" <<'END'
struct Position { float x, y, z; };
struct Velocity { float x, y, z; };
int main() {
    shoal::ecs::World world;
    const shoal::ecs::Entity entity = world.spawn(Position{0, 0, 0}, Velocity{1, 1, 1});
    shoal::ecs::Query<Position, const Velocity> moving{world};
    moving.each([](Position& p, const Velocity& v) { p.x += v.x; });
    return static_cast<int>(world.get<Position>(entity).x);
}
END

# name, then the command: prints its user time
measure() {
    name=$1
    shift
    for run in 1 2 3; do
        { LC_ALL=C command time -f %U "$@" -std=c++20 -I. -c -o "$work/out.o"; } 2>&1
    done | sort -n | sed -n "2s/^/ecs.compile.$name.s=/p"
}

measure gcc_include g++ -O0 "$work/include.cpp"
measure gcc_O0 g++ -O0 "$work/minimal.cpp"
measure gcc_O2 g++ -O2 "$work/minimal.cpp"
if command -v clang++ >/dev/null; then
    measure clang_O0 clang++ -O0 "$work/minimal.cpp"
    measure clang_O2 clang++ -O2 "$work/minimal.cpp"
fi
echo "ecs.compile.lines=$(g++ -std=c++20 -I. -E "$work/minimal.cpp" | grep -vc '^#')"
