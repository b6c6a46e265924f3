#!/bin/sh
# Writes each C++ block of a page to a file of its own: FOLDER/queries_2.inc is the second block of the section
# "Queries". Compilers report the line of the page. Fails if a block is named by none of the USERS, in a folder with
# the name of FOLDER.
# usage: tests/snippets.sh PAGE FOLDER USERS... (FOLDER's blocks are replaced)
set -eu
page=$1 folder=$2
shift 2
mkdir -p "$folder" && rm -f "$folder"/*.inc
place=$(basename "$folder")
awk -v folder="$folder" '
    /^```/ {
        fenced = !fenced
        file = ""
        if ($0 == "```cpp") {
            file = folder "/" section "_" ++blocks ".inc"
            printf "#line %d \"%s\"\n", NR + 1, FILENAME > file
        }
        next
    }
    file != "" { print > file }
    !fenced && /^#/ {
        section = tolower($0)
        gsub(/^#+ +|[^a-z0-9 ]/, "", section)
        gsub(/ /, "_", section)
        blocks = 0
    }' "$page"
for file in "$folder"/*.inc; do
    [ -e "$file" ] || continue  # a page without C++
    block=$(basename "$file")
    grep -qF "$place/$block" "$@" || { echo "$page: no test compiles the block $block (one of $*)"; exit 1; }
done
