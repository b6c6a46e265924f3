#!/bin/sh
# Copies the three library folders into an empty folder, and compiles them with the README's Makefile, without -I,
# exceptions, RTTI and warnings. Builds the README's smallest game with them, also with CMake if it is installed, and
# checks that the client sees a moving fish. Builds the whole game of demo/tutorial, too, and checks what two players
# see. Builds demo/echo with net/ alone, and checks that the two programs exchange a message.
# usage: tests/vendor.sh FOLDER (its contents are deleted)
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:?usage: tests/vendor.sh FOLDER}
compiler=${CXX:-g++}
jobs=$(nproc 2> /dev/null || echo 2)
server= alone= whole=
stop() { [ -z "$server$alone$whole" ] || kill $server $alone $whole 2> /dev/null; }
trap stop EXIT
fail() { echo "vendor: FAILED: $1"; exit 1; }

rm -rf "$folder" && mkdir -p "$folder" && cd "$folder" || fail "no folder $folder"
cp -r "$root/ecs" "$root/net" "$root/replication" .
sh "$root/tests/snippets.sh" "$root/README.md" snippets "$root/tests/vendor.sh" || fail "the snippets of README.md"
mv snippets/the_smallest_game_1.inc game.h
mv snippets/the_smallest_game_2.inc server.cpp
mv snippets/the_smallest_game_3.inc client.cpp
port=$((20000 + $$ % 19998))  # neither it nor the next two are the documented port, which a demo may use
sed "s/40000/$port/" server.cpp > moved && mv moved server.cpp
block() { awk -v "first=^\`\`\`$1\$" '$0 ~ first { inside = 1; next } /^```/ { inside = 0 } inside' "$root/README.md"; }
block make > Makefile
# usage: build FLAGS TARGET
build() {
    flags="-std=c++20 -fno-exceptions -fno-rtti -Wall -Wextra -Wshadow -Wconversion $1"
    output=$(MAKEFLAGS= make -s -j"$jobs" CXX="$compiler" CXXFLAGS="$flags" "$2" 2>&1) || fail "$2: $output"
    [ -z "$output" ] || fail "$2 warns: $output"
}
build "" libshoal.a
# The two programs of demo/echo, in a folder with net/ and its objects.
net_alone() {
    trap stop EXIT
    cp "$root"/demo/echo/*.cpp alone && cd alone || fail "no folder of its own for net"
    for program in echo_server echo_client; do
        sed "s/7777/$((port + 1))/" "$program.cpp" > moved && mv moved "$program.cpp"
        # The command of the page, with the objects from above and warnings.
        line=$(grep "^g++ .* -o $program\$" net/ALONE.md |
            sed "s|^g++|$compiler -Wall -Wextra -Wshadow -Wconversion|; s/-O2/-O0/; s|net/\*\.cpp net/\*/\*\.cpp|net/*.o net/*/*.o|")
        output=$(sh -c "$line" 2>&1) || fail "the line of net/ALONE.md does not build: $line: $output"
        [ -z "$output" ] || fail "$program warns: $output"
    done
    timeout 60 ./echo_server > key.txt 2> log.txt & server=$!
    for _ in $(seq 100); do
        [ -s key.txt ] && break
        sleep 0.1
    done
    timeout 20 ./echo_client "$(cat key.txt)" > echo.txt 2>&1 || fail "the echo client: $(cat echo.txt log.txt)"
    grep -q '^echo: hello, shoal$' echo.txt || fail "no echo: $(cat echo.txt log.txt)"
    kill "$server"; wait "$server" || fail "the echo server ends badly: $(cat log.txt)"
    server=
}
mkdir alone && cp -r net alone && net_alone & alone=$!

# The whole game, with a screen that plays a script.
play_whole_game() {
    alone=
    trap stop EXIT
    sed "s/40000/$((port + 2))/" whole/server.cpp > whole/moved && mv whole/moved whole/server.cpp
    for program in server client; do
        build -I. whole/$program.o
        $compiler whole/$program.o libshoal.a -o whole/$program || fail "the whole game's $program does not link"
    done
    cd whole || fail "no folder of its own for the whole game"
    timeout 90 ./server > log.txt 2>&1 & server=$!
    for _ in $(seq 100); do
        [ -s server.pub ] && break
        sleep 0.1
    done
    SHOOTER=yes timeout 60 ./client 127.0.0.1:$((port + 2)) > ann.txt 2>&1 & whole=$!
    timeout 60 ./client 127.0.0.1:$((port + 2)) > guest.txt 2>&1 || fail "the guest: $(cat guest.txt log.txt)"
    wait $whole || fail "the shooter: $(cat ann.txt log.txt)"
    kill "$server"
    server= whole=
    for line in bang 'sees \.' 'out of ammunition' '[1-9] hits' 'Ann: ahoy'; do
        grep -q "^$line\$" ann.txt || fail "the shooter has no line '$line': $(cat ann.txt)"
    done
    for line in '(bang)' 'sees \.' 'sees [12]guest' 'a name needs a letter' 'Ann: ahoy'; do
        grep -q "^$line\$" guest.txt || fail "the other player has no line '$line': $(cat guest.txt)"
    done
    if grep -q '^bang$\|ammunition' guest.txt; then fail "the other player shot: $(cat guest.txt)"; fi
}
mkdir whole
cp "$root"/demo/tutorial/*.h "$root"/demo/tutorial/*.cpp whole
cp "$root/tests/support/scripted_screen.h" whole/screen.h
play_whole_game & whole=$!

build -I. client
# The command of the README, with the library from above.
line=$(grep '^g++ .* -o server$' "$root/README.md" | sed "s|^g++|$compiler|; s/-O2/-O0/; s|ecs/\*.*replication/\*/\*\.cpp|libshoal.a|")
sh -c "$line" || fail "the README's line does not build: $line"
if command -v cmake > /dev/null; then
    block cmake > CMakeLists.txt
    # Stands before the compiler, and takes the library's objects from above.
    cat > reuse.sh <<'END'
for source; do :; done
case $source in */server.cpp) exec "$@" ;; esac
while [ "$1" != -o ]; do shift; done
cp "${source%.cpp}.o" "$2"
END
    output=$(CXX="$compiler" cmake -S . -B cmake "-DCMAKE_CXX_COMPILER_LAUNCHER=sh;$PWD/reuse.sh" 2>&1 &&
        MAKEFLAGS= cmake --build cmake -j "$jobs" 2>&1) || fail "CMake: $output"
    cp cmake/server server
else
    echo "vendor: no cmake here"
fi
./server & server=$!
for _ in $(seq 100); do
    [ -s server.pub ] && break
    sleep 0.1
done
timeout 20 ./client 127.0.0.1:$port > seen.txt 2>&1 & client=$!
for _ in $(seq 100); do
    [ "$(sort -u seen.txt 2>/dev/null | grep -c '^fish at ')" -ge 5 ] && break
    kill -0 "$client" 2>/dev/null || break
    sleep 0.1
done
kill "$client" 2>/dev/null
[ "$(sort -u seen.txt | grep -c '^fish at ')" -ge 5 ] || fail "the client saw no moving fish: $(tail -n 3 seen.txt)"
kill "$server"; wait "$server" 2>/dev/null; server=

wait "$alone" || exit 1
alone=
wait "$whole" || exit 1
whole=
echo "vendor: passed"
