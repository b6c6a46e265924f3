#!/bin/sh
# The three library folders, copied alone into an empty tree, compile file by file without -I,
# exceptions and RTTI, and
# the README's smallest server and client build against them, meet, and show a moving fish.
# usage: tests/vendor.sh FOLDER (emptied and used)
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:?usage: tests/vendor.sh FOLDER}
compiler=${CXX:-g++}
server=
stop() { [ -z "$server" ] || kill "$server" 2>/dev/null; }
trap stop EXIT
fail() { echo "vendor: FAILED: $1"; exit 1; }

rm -rf "$folder" && mkdir -p "$folder" && cd "$folder" || fail "no folder $folder"
cp -r "$root/ecs" "$root/net" "$root/replication" .
for file in ecs/*.cpp net/*.cpp replication/*.cpp; do
    output=$("$compiler" -std=c++20 -fno-exceptions -fno-rtti -Wall -Wextra -Wshadow -Wconversion -c "$file" -o "$(echo "$file" | tr / _).o" 2>&1) || fail "$file: $output"
    [ -z "$output" ] || fail "$file warns: $output"
done

# The first three C++ blocks of the README are game.h, server.cpp and client.cpp.
awk '/^```cpp$/ { n++; name = n == 1 ? "game.h" : n == 2 ? "server.cpp" : n == 3 ? "client.cpp" : "rest"; inside = 1; next }
     /^```$/ { inside = 0 } inside { print > name }' "$root/README.md"
port=$((20000 + $$ % 20000))  # another than the documented one, which a demo may be using
for program in server client; do
    sed "s/40000/$port/" "$program.cpp" > moved && mv moved "$program.cpp"
done
# The README's own line links the server; the client takes the objects from above.
line=$(grep '^g++ .* -o server$' "$root/README.md" | sed "s/^g++/$compiler/; s/-O2/-O0/")
sh -c "$line" || fail "the README's line does not build: $line"
"$compiler" -std=c++20 -fno-exceptions -fno-rtti -Wall -Wextra -I. client.cpp ./*.o -o client || fail "client does not build"
./server > key.txt & server=$!
for _ in $(seq 100); do
    [ -s key.txt ] && break
    sleep 0.1
done
timeout 20 ./client "$(cat key.txt)" > seen.txt 2>&1 & client=$!
for _ in $(seq 100); do
    [ "$(sort -u seen.txt 2>/dev/null | grep -c '^fish at ')" -ge 5 ] && break
    kill -0 "$client" 2>/dev/null || break
    sleep 0.1
done
kill "$client" 2>/dev/null
[ "$(sort -u seen.txt | grep -c '^fish at ')" -ge 5 ] || fail "the client saw no moving fish: $(tail -n 3 seen.txt)"
echo "vendor: passed"
