#!/bin/sh
# Trains the models of docs/positions-and-heads.md: the decoder of paper.py with shared key/value
# heads and with other positions. They have the same text, seed, order, steps and (but for the table
# of learned positions) size.
#   paper.sh DATA DATA2 OUT [NAME...]
# Each is trained for 400 steps on DATA, whose learning rate falls to zero, and then for 500 on DATA2
# (make_text.py --seed 3, with the tokenizer of DATA).
set -eu
here=$(dirname "$0")
data=$1 data2=$2 out=$3
shift 3
[ $# -gt 0 ] || set -- mha gqa mqa rope learned alibi
train() {
    ${PYTHON:-python3} "$here/train.py" "$@" --shape "$shape" --rows 8 --row 256 --lr 0.004 \
        --threads 1 --f32
}
for name; do
    heads='"kv_heads": 8, "hidden": 160' positions=sinusoidal
    case $name in
    gqa) heads='"kv_heads": 2, "hidden": 208' ;;
    mqa) heads='"kv_heads": 1, "hidden": 216' ;;
    rope | learned | alibi) positions=$name ;;
    esac
    shape="\"decoder\": \"paper\", \"vocab\": 512, \"dim\": 64, \"layers\": 4, \"heads\": 8"
    shape="{$shape, \"context\": 256, $heads, \"positions\": \"$positions\"}"
    train "$data" "$out/first/$name" --steps 400 --warmup 100 --decay-steps 133 --seed 1
    train "$data2" "$out/$name" --from "$out/first/$name/last.pt" --steps 500 --warmup 50 \
        --decay-steps 350 --seed 3
    tail -n 1 "$out/$name/log.txt" | sed "s/^/$name: /"
done
