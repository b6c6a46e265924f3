#!/bin/sh
# Writes the tutorial's game as it is after a step into a folder: game.h, server.cpp, client.cpp and screen.h. If the
# folder has no Makefile, adds the one of the main README, and the libraries.
# usage: demo/tutorial/step.sh STEP FOLDER  (step 0 is the smallest game of the main README)
set -eu
tutorial=$(cd "$(dirname "$0")" && pwd)
root=$tutorial/../..
step=$1
mkdir -p "$2" && cd "$2"
# usage: block PAGE SECTION LANGUAGE NUMBER prints the block of code with this number in a section.
block() {
    awk -v section="## $2" -v fence="\`\`\`$3" -v number="$4" '
        /^## / && !inside { found = index($0, section) == 1 }
        /^```/ { inside = !inside && found && $0 == fence && ++count == number; next }
        inside' "$1"
}
block "$root/README.md" "The smallest game" cpp 1 > game.h
block "$root/README.md" "The smallest game" cpp 2 > server.cpp
block "$root/README.md" "The smallest game" cpp 3 > client.cpp
cp "$tutorial/screen.h" .
for number in $(seq "$step"); do
    block "$tutorial/README.md" "$number. " diff 1 > step.diff
    # git looks for the files from the top of the repository that it is in.
    if command -v patch > /dev/null; then patch -s -p1 < step.diff; else GIT_DIR=none git apply --unidiff-zero step.diff; fi
done
rm -f step.diff
[ -e Makefile ] && exit
block "$root/README.md" Vendoring make 1 > Makefile
cp -r "$root/ecs" "$root/net" "$root/replication" .
