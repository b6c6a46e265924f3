#!/bin/sh
# Checks the documents: each link to a file or to a section leads somewhere, and replication/CHEATSHEET.md names
# every public function of the server, the client, their runners and listeners, and every option of a schema, and no
# other.
# usage: tests/documents.sh
set -u
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 1
fail() { echo "documents: FAILED: $1"; exit 1; }

pages=$(find . -name build -prune -o -name '.*' -name '?*' ! -name . -prune -o -name '*.md' -print)
# Prints PAGE#SECTION for each section, as code hosts name them.
sections=$(awk '
    FNR == 1 { fenced = 0 }
    /^```/ { fenced = !fenced }
    !fenced && /^#+ / {
        name = tolower($0)
        sub(/^#+ +/, "", name)
        gsub(/[^a-z0-9 _-]/, "", name)
        gsub(/ /, "-", name)
        print FILENAME "#" name
    }' $pages)
# Prints FILE#SECTION or FILE, from here, for each link within the repository.
links=$(awk '
    FNR == 1 { fenced = 0 }
    /^```/ { fenced = !fenced }
    fenced { next }
    {
        for (line = $0; match(line, /\]\([^)]*\)/); line = substr(line, RSTART + RLENGTH)) {
            target = substr(line, RSTART + 2, RLENGTH - 3)
            if (target ~ /^[a-z]+:/) continue
            page = FILENAME
            if (target ~ /^#/) { print page target; continue }
            sub(/[^\/]*$/, "", page)
            target = page target
            while (sub(/[^\/.]+\/\.\.\//, "", target)) {}
            print target
        }
    }' $pages | sort -u)
[ "$(echo "$links" | wc -l)" -gt 50 ] || fail "the documents have more links than $(echo "$links" | wc -l)"
for file in $(echo "$links" | sed 's/#.*//' | sort -u); do
    [ -e "$file" ] || fail "a link leads to $file"
done
for section in $(echo "$links" | grep '#'); do
    case "
$sections
" in *"
$section
"*) ;; *) fail "a link leads to $section" ;; esac
done

# usage: functions CLASS HEADER prints the names of its public functions, without constructors.
functions() {
    awk -v class="$1" '
        /^(class|struct) / { inside = $2 == class; is_public = /^struct/ }
        /^public:/ { is_public = 1 }
        /^private:/ { is_public = 0 }
        inside && is_public && /^    [^ \/}]/ {
            sub(/\/\/.*/, "")
            sub(/void\(check\)/, "void check")
            if (match($0, /[A-Za-z_]+\(/)) {
                name = substr($0, RSTART, RLENGTH - 1)
                if (name != class && name != "static_assert") print name
            }
        }' "$2" | sort -u
}
sheet=replication/CHEATSHEET.md
# usage: covers CLASS HEADER OBJECT
covers() {
    declared=$(functions "$1" "$2")
    named=$(grep -o "\`$3\.[a-z_]*" $sheet | sed 's/.*\.//' | sort -u)
    [ "$(echo "$declared" | wc -l)" -gt 2 ] || fail "$2 has more functions than: $declared"
    for name in $declared; do
        echo "$named" | grep -qx "$name" || fail "$sheet does not name $3.$name"
    done
    for name in $named; do
        echo "$declared${4:-}" | grep -qx "$name" || fail "$sheet: $2 has no $3.$name"
    done
}
covers Server replication/server.h server
covers Client replication/client.h client
both=$(functions ServerRunner replication/runner.h; functions ClientRunner replication/runner.h)
for name in $both; do
    grep -q "\`runner\.$name\>" $sheet || fail "$sheet does not name runner.$name"
done
for name in $(grep -o '`runner\.[a-z_]*' $sheet | sed 's/.*\.//'); do
    echo "$both" | grep -qx "$name" || fail "$sheet: no runner has $name"
done
for listener in Server Client; do
    header=replication/$(echo $listener | tr SC sc).h
    for name in $(functions ${listener}Listener $header); do
        grep -q "\`${listener}Listener\`:[^|]*\`$name\`" $sheet || fail "$sheet does not name $listener's $name"
    done
done
# Options are what the headers of the schema export to games and begin with a small letter. Those that only the
# library or a game's tool needs are left out.
for name in $(sed -n '/^using impl::/,/;/s/impl:://gp' replication/schema/schema.h | tr -cs 'a-z_A-Z' '\n' | grep '^[a-z]'); do
    case $name in using | for_each_field | k[A-Z]*) continue ;; esac
    grep -q "\`$name\>" $sheet || fail "$sheet does not name the option $name"
done
for name in $(grep -o '`schema\.[a-z_]*' $sheet | sed 's/.*\.//'); do
    functions Schema replication/schema/schema.h | grep -qx "$name" || fail "$sheet: Schema has no $name"
done
echo "documents: passed"
