#!/bin/sh
# Takes the parts of demo/tutorial that a test can call: game.inc, server.inc and client.inc are the texts of the
# game, without the runners, the keys and the screen. Plants faults that the test can switch on: is_planted(NAME).
# Fails if the tutorial does not have the lines that this script changes.
# usage: tests/tutorial_parts.sh TUTORIAL FOLDER
set -eu
tutorial=$1 folder=$2
mkdir -p "$folder"
# usage: change FILE FROM TO: replaces a text that must occur
change() {
    grep -qF "$2" "$folder/$1" || { echo "tutorial_parts: FAILED: $1 has no line with: $2"; exit 1; }
    awk -v from="$2" -v to="$3" '
        at = index($0, from) { $0 = substr($0, 1, at - 1) to substr($0, at + length(from)) }
        { print }' "$folder/$1" > "$folder/changed" && mv "$folder/changed" "$folder/$1"
}
sed '/^#/d' "$tutorial/game.h" > "$folder/game.inc"
sed '1,/runner\.server();$/d; /return runner\.run();/,$d' "$tutorial/server.cpp" |
    sed 's/^    Query<\(.*\)> \([a-z]*\)(world);$/    Query<\1>\& \2 = keep<Query<\1>>(kept, world);/' > "$folder/server.inc"
sed '1,/runner\.client();$/d; /^}$/d' "$tutorial/client.cpp" | awk '
    /return runner\.run\(\[&\] {/ { sub(/runner\.run\(\[&\] {/, "[\\&, kept] {"); in_frame = 1 }
    in_frame && /^    }\);$/ { $0 = "    };" }
    { print }' > "$folder/client.inc"
change game.inc 'inline void move(' 'inline void honest_move('
change server.inc 'server.teleport(ship);' 'if (!is_planted("a missed teleport")) server.teleport(ship);'
change server.inc 'if (!player) return world.destroy(bullet);' \
    'if (!player) return is_planted("a leak of entities") ? void() : world.destroy(bullet);'
change client.inc 'const Name* name = world.try_get<Name>(call.player);' \
    'const Name* name = world.try_get<Name>(call.player); if (!name && is_planted("a handler that throws away an event")) return;'
