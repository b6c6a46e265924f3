#!/bin/sh
# Runs a server, a client over a bad network, one of an older version, one that joins late, one with several bots,
# and one that floods the server. Then compares their hash logs; the bots compare their worlds themselves. The server
# records all this; replays of the recording, from the start and from ten places, must have the same hashes.
# usage: demo.sh FOLDER_OF_BINARIES
set -u
bin=$1
dir=$(mktemp -d) || exit 1
children=

clean_up() {
    [ -z "$children" ] || kill $children 2>/dev/null
    wait
    rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

give_up() {
    echo "demo: $1" >&2
    cat "$dir"/*.err >&2
    exit 1
}

# Port 0: the system chooses a free port, and the server prints it.
: >"$dir/server.out"
"$bin/server" --port 0 --seconds 8 --settle 1 --headless --hash-log "$dir/server.log" --record "$dir/match" \
    >"$dir/server.out" 2>"$dir/server.err" &
server=$!
children=$server
port=
for attempt in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    port=$(sed -n 's/^listening on [^ ]*:\([0-9]*\) .*/\1/p' "$dir/server.out")
    [ -z "$port" ] || break
    sleep 0.1
done
[ -n "$port" ] || give_up "the server did not start"
echo "a server, a client with 5 % loss and 50 +- 10 ms in each direction, an old and a late client, 3 bots: 8 seconds"

"$bin/client" --connect "127.0.0.1:$port" --name lossy --headless --hash-log "$dir/lossy.log" \
    --loss 0.05 --latency-ms 50 --jitter-ms 10 >"$dir/lossy.out" 2>"$dir/lossy.err" &
lossy=$!
children="$children $lossy"
"$bin/client" --connect "127.0.0.1:$port" --name old --old --headless --hash-log "$dir/old.log" \
    >"$dir/old.out" 2>"$dir/old.err" &
old=$!
children="$children $old"
"$bin/client" --connect "127.0.0.1:$port" --bots 3 --seconds 6 --loss 0.05 --latency-ms 75 \
    >"$dir/bots.out" 2>"$dir/bots.err" &
bots=$!
children="$children $bots"
sleep 2.5
"$bin/client" --connect "127.0.0.1:$port" --name late --headless --hash-log "$dir/late.log" \
    >"$dir/late.out" 2>"$dir/late.err" &
late=$!
children="$children $late"

# A client that floods the server is kicked, and the others play on.
if "$bin/client" --connect "127.0.0.1:$port" --bots 1 --flood --seconds 4 >"$dir/flood.out" 2>"$dir/flood.err"; then
    give_up "a client that floods the server stays"
fi
grep -q 'lost the server: kicked: too many messages' "$dir/flood.err" || give_up "a flooding client does not know why it was kicked"
grep -q '^kicked bot0: too many messages' "$dir/server.out" || give_up "the server does not say who was kicked"

# A client that expects another key must not join, and must say why.
if "$bin/client" --connect "127.0.0.1:$port" --key "$(printf '%064d' 11)" --headless \
    >"$dir/stranger.out" 2>"$dir/stranger.err"; then
    give_up "a client that expects another key joined"
fi
grep -q 'the server has another key' "$dir/stranger.err" || give_up "a wrong key is not reported"

# A token can be used once.
: >"$dir/club.out"
"$bin/backend" --server 127.0.0.1:1 >"$dir/token" 2>"$dir/backend.err" || give_up "the backend failed"
"$bin/server" --port 0 --tokens 127.0.0.1:1 --seconds 5 --headless >"$dir/club.out" 2>"$dir/club.err" &
club=$!
children="$children $club"
sleep 0.3
club_port=$(sed -n 's/^listening on [^ ]*:\([0-9]*\) .*/\1/p' "$dir/club.out")
"$bin/client" --connect "127.0.0.1:$club_port" --token "$dir/token" --seconds 1 --headless \
    >"$dir/member.out" 2>"$dir/member.err" || give_up "a client with a token did not join"
if "$bin/client" --connect "127.0.0.1:$club_port" --token "$dir/token" --headless \
    >"$dir/copy.out" 2>"$dir/copy.err"; then
    give_up "a token was accepted twice"
fi
grep -q 'used before' "$dir/copy.err" || give_up "a used token is not reported"

# A server that was told to end lets its player play on, and nobody join. It ends when the player has left.
: >"$dir/draining.out"
"$bin/server" --port 0 --headless --drain 30 >"$dir/draining.out" 2>"$dir/draining.err" &
draining=$!
children="$children $draining"
sleep 0.3
draining_port=$(sed -n 's/^listening on [^ ]*:\([0-9]*\) .*/\1/p' "$dir/draining.out")
"$bin/client" --connect "127.0.0.1:$draining_port" --seconds 3 --headless >"$dir/last.out" 2>"$dir/last.err" &
last=$!
children="$children $last"
sleep 1
kill "$draining"
sleep 0.3
if "$bin/client" --connect "127.0.0.1:$draining_port" --headless >"$dir/newcomer.out" 2>"$dir/newcomer.err"; then
    give_up "a client joined a server that ends"
fi
grep -q 'this server is about to stop' "$dir/newcomer.err" || give_up "a newcomer does not learn that the server ends"
wait $last || give_up "a server that ends did not let its player play on: $(cat "$dir/last.err")"
wait $draining || give_up "a server that ends failed"

wait $server || give_up "the server failed"
wait $lossy || give_up "the lossy client failed"
wait $late || give_up "the late client failed"
wait $old || give_up "the client of the first version failed"
wait $bots || give_up "the bots failed: $(cat "$dir/bots.out")"
cat "$dir/bots.out"
grep -q '^summary .* coloured=0 ' "$dir/old.out" || give_up "the first version of the game knows colours"
grep -q '^summary .* coloured=[1-9]' "$dir/late.out" || give_up "a client does not know the players' colours"
"$bin/replay" "$dir/match" --hash-log "$dir/replay.log" >"$dir/replay.out" 2>"$dir/replay.err" ||
    give_up "the replay failed"
"$bin/replay" "$dir/match" --old --hash-log "$dir/replay_old.log" >"$dir/replay_old.out" 2>"$dir/replay_old.err" ||
    give_up "the replay of the first version failed"
seeks=
for seek in $(awk -v seed=$$ 'BEGIN { srand(seed); for (i = 0; i < 10; ++i) print 6.9 * rand() }'); do
    "$bin/replay" "$dir/match" --seek "$seek" --hash-log "$dir/seek_$seek.log" >"$dir/seek_$seek.out" \
        2>"$dir/seek.err" || give_up "the replay from second $seek failed"
    seeks="$seeks $dir/seek_$seek.log"
done
"$bin/compare" "$dir/server.log" --at-least 100 "$dir/replay.log" "$dir/replay_old.log" $seeks \
    >"$dir/replays.out" 2>"$dir/replays.err" || give_up "a replay differs"
# A recording that is cut off is played up to its end, one that is no recording is refused, each with one line.
head -c $(($(wc -c <"$dir/match") - 5)) "$dir/match" >"$dir/cut"
"$bin/replay" "$dir/cut" --headless >"$dir/cut.out" 2>"$dir/cut.line" && give_up "a recording without its end is not noticed"
grep -q '^summary .*ticks=[1-9]' "$dir/cut.out" || give_up "a recording without its end is not played"
grep -q 'cut off or damaged$' "$dir/cut.line" || give_up "a recording without its end is not reported"
"$bin/replay" "$dir/server.log" >"$dir/foreign.out" 2>"$dir/foreign.line" && give_up "a foreign file is not noticed"
grep -q 'this is no recording$' "$dir/foreign.line" || give_up "a foreign file is not reported"
[ "$(cat "$dir/cut.line" "$dir/foreign.line" | wc -l)" -eq 2 ] || give_up "a damaged file is reported in more than one line"
sed -n 's/^summary .*ticks=\([0-9]*\) .*kB.minute=\([0-9]*\) .*/recording of \1 ticks played 12 times, \2 kB per minute/p' \
    "$dir/replay.out"
children=
"$bin/compare" "$dir/server.log" "$dir/late.log" "$dir/old.log" --at-least 50 "$dir/lossy.log"
