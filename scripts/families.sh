#!/bin/sh
# Brings the rows that two tests measure up to date in docs/families.md:
#     VERBATIM_FAMILIES=table build/tests/test_reference_logits
#     VERBATIM_FAMILIES=gguf build/tests/test_gguf_families && scripts/families.sh table gguf
# Everything else on that page is written by hand and stays: the text, and rows of its tables that
# the tests do not measure, which the script names. A measured row replaces the one with the same
# words before the column `difference`; rows are sorted by their first column.
set -e
[ -f "$1" ] && [ -f "$2" ] || { echo "usage: $0 TABLE GGUF_TABLE" >&2; exit 2; }
cd "$(dirname "$0")/.." || exit 2
case $1 in /*) table=$1 ;; *) table=$OLDPWD/$1 ;; esac
case $2 in /*) gguf=$2 ;; *) gguf=$OLDPWD/$2 ;; esac
page=docs/families.md
new=$(mktemp)
trap 'rm -f "$new" "$new.rows" "$new.page"' EXIT

# replace ROWS HEAD: the rows of the table of $new.page whose first line begins with HEAD.
replace() {
    # key: what stands in the three columns before `difference`.
    awk -F'|' -v rows="$1" -v head="$2" -v out="$new.rows" '
        function key() { return $2 "|" $3 "|" $4 }
        BEGIN { while ((getline < rows) > 0) { measured[key()] = 1; print > out } }
        index($0, head) == 1 { inside = 1; next }
        inside && $0 == "" { inside = 0 }
        inside && !/^\| ---/ && !(key() in measured) {
            print > out
            print "not measured:" $2 "|" $3 > "/dev/stderr"
        }' "$new.page"
    LC_ALL=C sort -t'|' -k2,2 -s "$new.rows" > "$new"
    awk -v rows="$new" -v head="$2" '
        inside && $0 == "" { inside = 0 }
        !inside || /^\| ---/ { print }
        inside && /^\| ---/ { while ((getline line < rows) > 0) print line }
        index($0, head) == 1 { inside = 1 }' "$new.page" > "$new.rows"
    mv "$new.rows" "$new.page"
}

cp "$page" "$new.page"
replace "$table" '| model_type | features | weights |'
replace "$gguf" '| architecture | model_type | features |'
cat "$new.page" > "$page"
