#!/bin/sh
# Makes the game of demo/tutorial/README.md after each step with the page's script, compiles it without warnings, and
# plays it with two clients that take their keys from a pipe. Each change has at most 40 lines, and the last game is
# the one in demo/tutorial, which vendor.sh plays. Checks that step.sh needs no more than git, too.
# usage: tests/tutorial.sh FOLDER LIBRARY (the folder's contents are deleted)
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:?usage: tests/tutorial.sh FOLDER LIBRARY}
library=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
compiler=${CXX:-g++}
page=$root/demo/tutorial/README.md
rm -rf "$folder" && mkdir -p "$folder" && cd "$folder" || exit 1
fail() { echo "tutorial: FAILED: $1"; exit 1; }

write() {
    mkdir -p "$2" && touch "$2/Makefile"  # the library is not copied
    sh "$root/demo/tutorial/step.sh" "$1" "$2" || fail "step $1 does not fit the step before"
}
awk '
    /^## [0-9]/ { step = $2 }
    /^```/ { inside = $0 == "```diff" }
    inside && /^[-+]/ && !/^(---|\+\+\+) [ab]\// { ++lines[step] }
    END {
        for (step in lines) {
            ++steps
            if (lines[step] > 40) { print "step " step " changes " lines[step] " lines"; steps = 100 }
        }
        exit steps != 6
    }' "$page" || fail "there must be six changes of at most 40 lines"
write 6 end
for file in game.h server.cpp client.cpp; do
    cmp "$root/demo/tutorial/$file" "end/$file" || fail "step 6 is not the whole game: $file"
done
# Without patch, step.sh uses git, here perhaps inside of a repository.
if command -v git > /dev/null; then
    mkdir tools && for tool in sh git awk cp rm seq cat mkdir dirname basename touch sed; do
        ln -s "$(command -v $tool)" tools/$tool
    done
    (PATH=$PWD/tools && write 6 with_git) && cmp end/client.cpp with_git/client.cpp || fail "step.sh with git"
fi

port=$((20000 + $$ % 19990))
# usage: both STEP makes the program STEP/game, which is the server or, with an address as argument, a client.
both() {
    write "$1" "$1"
    cat > "$1/game.cpp" <<'END'
#define main serve
#include "server.cpp"
#undef main
#define main play
#include "client.cpp"
#undef main
int main(int count, char** arguments) { return count > 1 ? play(count, arguments) : serve(); }
END
    sed "s/40000/$((port + $1))/" "$1/server.cpp" > moved_"$1" && mv moved_"$1" "$1/server.cpp"
    # The page's line that simulates a bad network.
    if [ "$1" = 3 ]; then
        (cd 3 && sh -c "$(sed -n 's|my-game/||; /^sed -i/p' "$page")" && grep -q latency client.cpp) ||
            fail "the line of the page with sed"
    fi
    flags="-std=c++20 -O0 -fno-exceptions -fno-rtti -Wall -Wextra -Wshadow -Wconversion"
    output=$($compiler $flags -I"$root" "$1/game.cpp" "$library" -pthread -o "$1/game" 2>&1) && [ -z "$output" ] ||
        fail "step $1: $output"
}

# usage: see PLAYER PATTERN waits until the player's screen has a line with this pattern, without its escape codes.
see() {
    for _ in $(seq 300); do
        tr '\033' '\n' < "$1.txt" | sed 's/^\[[0-9;?]*[A-Za-z]//' | grep -q -e "$2" && return
        sleep 0.1
    done
    fail "step $step: $1 does not see '$2': $(cat log.txt; tail -n 24 "$1.txt")"
}
play() {
    step=$1
    cd "$step" && mkfifo ann.keys guest.keys || fail "no folder for step $step"
    timeout 120 ./game > log.txt 2>&1 & server=$!
    trap 'kill $server 2> /dev/null' EXIT
    for _ in $(seq 300); do
        [ -s server.pub ] && break
        sleep 0.1
    done
    timeout 100 ./game "127.0.0.1:$((port + step))" < ann.keys > ann.txt 2>&1 &
    exec 3> ann.keys
    see ann guest
    sleep 2  # else the fish of the two players would hide each other
    timeout 100 ./game "127.0.0.1:$((port + step))" < guest.keys > guest.txt 2>&1 3>&- &
    exec 4> guest.keys
    see guest guest
    printf '\n/name \n' >&3
    see ann 'a name needs a letter'
    printf '\n/name Ann\n' >&3
    if [ "$step" -ge 2 ]; then  # ships begin in the same place
        printf 'a' >&3
        see guest '^ \{0,30\}[o3]Ann'
        printf 'ed ' >&3
    fi
    see guest '[o3]Ann'
    printf '\nahoy\n' >&3
    see guest '^Ann: ahoy'
    if [ "$step" -ge 4 ]; then
        printf 'f' >&3
        see ann '^bang'
        see guest '^(bang)'
        see guest '[ o3][.]'
    fi
    [ "$step" -lt 5 ] || see guest '2guest'
    printf 'q' >&3
    printf 'q' >&4
    wait %2 %3 || fail "step $step: a client ends badly: $(tail -n 24 ann.txt guest.txt)"
}
for step in 1 3 5; do
    both $step & first=$!
    [ $step = 5 ] || both $((step + 1)) || exit 1
    wait $first || exit 1
done
players=
for step in 1 2 3 4 5; do
    (play $step) & players="$players $!"
done
for player in $players; do
    wait "$player" || exit 1
done
echo "tutorial: passed"
