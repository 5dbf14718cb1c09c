#!/bin/sh
# Trains small models that draft for stories.bin, on a machine with a GPU and some 16 cores:
#   draft.sh WORK OUT [MINUTES] [DEVICE]
# Their text is new, of both kinds (make_text.py), and their teacher is stories.bin itself: a draft
# is right where it chooses what stories.bin chooses. WORK is scratch; OUT gets a directory for
# export (../../export OUT/NAME NAME.bin --type q8) and a log for each of the shapes below, which
# train side by side. DOCUMENTS is the number of documents of each of the 12 parts of the text.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$1 out=$2 minutes=${3:-4} device=${4:-cuda} python=${PYTHON:-python3}
mkdir -p "$work" "$out"
work=$(cd "$work" && pwd) out=$(cd "$out" && pwd)
cd "$here"
began=$(date +%s)

$python from_bin.py ../stories.bin "$work/teacher" &
parts=
for part in 1 2 3 4 5 6 7 8 9 10 11 12; do
    second=--second
    [ $((part % 3)) -gt 0 ] || second=
    $python make_text.py "$work/part$part.jsonl" --documents "${DOCUMENTS:-30000}" \
        --seed $((100 + part)) $second &
    parts="$parts $work/part$part.jsonl"
done
$python make_text.py "$work/heldout.jsonl" --documents 1000 --seed 4 --second &
wait
paste -d '\n' $parts >"$work/train.jsonl"
$python make_tokenizer.py "$work/train.jsonl" "$work/heldout.jsonl" "$work/data" \
    --tokenizer "$work/teacher/tokenizer.json"
echo "text and tokens are ready after $(($(date +%s) - began)) s"

sibling() {
    name=$1 shape=$2
    $python train.py "$work/data" "$work/$name" --device "$device" --teacher "$work/teacher/last.pt" \
        --shape "$shape" --rows "${ROWS:-64}" --lr 0.004 --warmup 200 --seed 1 --threads 3 \
        --minutes "$minutes" --decay-minutes "$minutes" --long-minutes 0.5
    $python to_hf.py "$work/$name/last.pt" "$work/data" "$out/$name"
    cp "$work/$name/log.txt" "$out/$name/"
    tail -n 1 "$work/$name/log.txt" | sed "s/^/$name: /"
}
sibling 128x2 '{"dim": 128, "layers": 2, "heads": 4, "kv_heads": 2, "hidden": 192}' &
sibling 96x2 '{"dim": 96, "layers": 2, "heads": 6, "kv_heads": 3, "hidden": 256}' &
sibling 96x3 '{"dim": 96, "layers": 3, "heads": 6, "kv_heads": 3, "hidden": 192}' &
sibling 64x2 '{"dim": 64, "layers": 2, "heads": 4, "kv_heads": 4, "hidden": 192}' &
wait
