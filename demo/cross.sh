#!/bin/sh
# Clients built for other machines, each behind a bad network, join one server of this machine; then compares
# what they saw. The Windows client also joins the Windows server.
# usage: cross.sh FOLDER_OF_BINARIES [MACHINE ...]; without machines, those whose tools are installed
set -u
bin=$1
shift
are_chosen=$#
[ $# -gt 0 ] || set -- i686 aarch64 s390x windows
dir=$(mktemp -d) || exit 1
children= built= servers= clients= failures=0
# Wine asks for no downloads, and writes nothing outside of this folder.
export WINEPREFIX="$PWD/build/wine" WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml,winemenubuilder.exe='

clean_up() {
    [ -z "$children" ] || kill $children 2>/dev/null
    wait
    rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

fails() {
    echo "$1: FAILED: $2"
    failures=$((failures + 1))
}

# Sets the compiler, the emulator, the Debian packages that have them, and the programs to build.
describe() {
    compiler=$1-linux-gnu-g++
    emulator=qemu-$1-static
    packages="g++-$1-linux-gnu qemu-user-static"
    client=build/$1/demo/client
    windows_server=
    case $1 in
        i686) emulator=qemu-i386-static ;;
        aarch64 | s390x) ;;
        windows)
            compiler=x86_64-w64-mingw32-g++-posix
            emulator=wine
            packages='g++-mingw-w64-x86-64-posix wine'
            client=build/windows/demo/client.exe
            windows_server=build/windows/demo/server.exe
            ;;
        *) return 1 ;;
    esac
}

build() {
    if ! describe "$1"; then
        fails "$1" "no such machine"
    elif ! command -v $compiler >/dev/null || ! command -v $emulator >/dev/null; then
        echo "$1: not tried, needs: apt-get install $packages"
        [ $are_chosen = 0 ] || failures=$((failures + 1))
    elif ! "${MAKE:-make}" --no-print-directory CXX=$compiler "config=$1" $client $windows_server; then
        fails "$1" "does not build"
    else
        built="$built $1"
    fi
}

# Becomes a program of the machine described last.
run() {
    program=$1
    shift
    # Some processors run 32-bit programs as well, and some systems start the emulator by themselves.
    if [ "$emulator" != wine ] && "$program" --help >/dev/null 2>&1; then exec "$program" "$@"; fi
    exec $emulator "$program" "$@" </dev/null
}

# Port 0: the system picks a free one, and the server says which.
start_server() {
    server=$1
    shift
    : >"$dir/$server.out"
    run "$@" --port 0 --seconds 8 --settle 1 --headless --hash-log "$dir/$server.log" \
        >"$dir/$server.out" 2>"$dir/$server.err" &
    children="$children $!"
    servers="$servers $!"
    for attempt in $(seq 100); do
        key=$(sed -n 's/.*--key \([0-9a-f]*\).*/\1/p' "$dir/$server.out")
        port=$(sed -n 's/^listening on [^ ]*:\([0-9]*\) .*/\1/p' "$dir/$server.out")
        [ -z "$key" ] || return 0
        sleep 0.1
    done
    fails "$server" "did not start: $(cat "$dir/$server.err")"
    return 1
}

start_client() {
    run $client --connect "127.0.0.1:$port" --key "$key" --name "$1" --headless --hash-log "$dir/$1.log" \
        --loss 0.05 --latency-ms 50 --jitter-ms 10 >"$dir/$1.txt" 2>"$dir/$1.err" &
    children="$children $!"
    clients="$clients $1 $server $!"
}

# Takes a client's name, its server's and its process.
compare() {
    if ! wait "$3"; then
        fails "$1" "$(cat "$dir/$1.err")"
    elif ! "$bin/compare" "$dir/$2.log" --at-least 50 "$dir/$1.log" >"$dir/table" 2>"$dir/why"; then
        fails "$1" "$(cat "$dir/why")"
    else
        echo "$1: worlds identical on $(awk 'NR == 2 { print $2, "of", $4 }' "$dir/table") ticks"
    fi
}

for machine in "$@"; do build "$machine"; done
if [ -n "$built" ]; then
    case $built in *windows*) wine wineboot --init >/dev/null 2>&1 </dev/null ;; esac
    emulator=
    if start_server server "$bin/server"; then
        for machine in $built; do
            describe "$machine"
            start_client "$machine"
        done
    fi
    case $built in *windows*)
        describe windows
        if start_server windows-server $windows_server; then start_client windows-both; fi
        ;;
    esac
    wait $servers  # whose logs are complete then
    set -- $clients
    while [ $# -gt 0 ]; do
        compare "$1" "$2" "$3"
        shift 3
    done
    wait
    children=
fi
[ $failures = 0 ]
