#!/bin/sh
# Trains the siblings of the comparison: same text, seed, order, steps and size (to 2 %);
# they differ in the heads that share a key and a value, and in the positions.
#   siblings.sh DATA OUT [STEPS]
set -eu
here=$(dirname "$0")
data=$1 out=$2 steps=${3:-750}
base='"dim": 64, "layers": 4, "heads": 8, "context": 512'
sibling() {
    ${PYTHON:-python3} "$here/train.py" "$data" "$out/$1" --shape "{$base, $2}" --rows 8 --compile \
        --steps "$steps" --decay-steps $((steps / 3)) --seed 1
    tail -n 1 "$out/$1/log.txt" | sed "s/^/$1: /"
}
sibling mha-rope '"kv_heads": 8, "hidden": 160'
sibling gqa-rope '"kv_heads": 4, "hidden": 176'
sibling mqa-rope '"kv_heads": 1, "hidden": 192'
sibling gqa-sinusoidal '"kv_heads": 4, "hidden": 176, "positions": "sinusoidal"'
