#!/bin/sh
# Gives a trained model fewer key/value heads and trains it for a few more steps, as the paper on
# grouped queries does ("uptraining", arXiv:2305.13245).
#   grouped.sh MODEL.bin HEADS DATA OUT [options of train.py]
# DATA is text packed with the model's tokenizer (make_tokenizer.py --tokenizer). OUT, which must not
# exist, gets OUT/model, a directory for export. Prints the held-out loss of the model as it was,
# converted, and trained. HEADS 0 converts nothing: it shows what the same steps do to the model as
# it was.
set -eu
here=$(dirname "$0") python=${PYTHON:-python3}
model=$1 heads=$2 data=$3 out=$4
shift 4
mkdir "$out"

train() { # train NAME [options]: OUT/NAME, and the last line of its log
    name=$1
    shift
    $python "$here/train.py" "$data" "$out/$name" --f32 "$@"
    tail -n 1 "$out/$name/log.txt" | sed "s/^done: .*held-out/$name: held-out/"
}

checkpoint() { # checkpoint NAME [options of export]: OUT/NAME.start/last.pt
    name=$1
    shift
    "$here/../../export" "$model" "$out/$name.bin" --type f32 --force --quiet "$@"
    $python "$here/from_bin.py" "$out/$name.bin" "$out/$name.start" >"$out/$name.json"
}

checkpoint before
train before "$@" --from "$out/before.start/last.pt" --steps 0
start=before
if [ "$heads" -gt 0 ]; then
    start=converted
    checkpoint converted --kv-heads "$heads"
    train converted "$@" --from "$out/converted.start/last.pt" --steps 0
fi
train trained "$@" --from "$out/$start.start/last.pt"
writer=to_hf.py
grep -q '"decoder": "paper"' "$out/before.json" && writer=to_own.py
$python "$here/$writer" "$out/trained/last.pt" "$data" "$out/model"
