#!/bin/sh
# Trains the siblings of docs/positions-and-heads.md: same text, seed, order, steps and size (to
# 2 %); they differ in the heads that share a key and a value, and in the positions.
#   siblings.sh DATA OUT
set -eu
here=$(dirname "$0")
data=$1 out=$2
base='"dim": 64, "layers": 4, "heads": 8, "context": 512'
sibling() {
    ${PYTHON:-python3} "$here/train.py" "$data" "$out/$1" --shape "{$base, $2}" --rows 4 \
        --steps 600 --decay-steps 300 --lr 0.004 --seed 1 --threads 1
    ${PYTHON:-python3} "$here/to_hf.py" "$out/$1/last.pt" "$data" "$out/$1/hf"
    tail -n 1 "$out/$1/log.txt" | sed "s/^/$1: /"
}
for positions in rope sinusoidal; do
    sibling mha-$positions "\"kv_heads\": 8, \"hidden\": 160, \"positions\": \"$positions\""
    sibling gqa-$positions "\"kv_heads\": 4, \"hidden\": 181, \"positions\": \"$positions\""
    sibling mqa-$positions "\"kv_heads\": 1, \"hidden\": 197, \"positions\": \"$positions\""
done
