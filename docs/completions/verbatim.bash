# bash completion of verbatim, verbatim-export, verbatim-bench, verbatim-get and verbatim-serve
_verbatim() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    # Bash splits "--type=q8" into three words.
    if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
    case $prev in
        -m | --mode) COMPREPLY=($(compgen -W "generate chat" -- "$cur")); return ;;
        --bos) COMPREPLY=($(compgen -W "auto no yes" -- "$cur")); return ;;
        --kv-type) COMPREPLY=($(compgen -W "auto f32 f16 bf16 q8" -- "$cur")); return ;;
        --reasoning) COMPREPLY=($(compgen -W "auto on off" -- "$cur")); return ;;
        --reasoning-effort) COMPREPLY=($(compgen -W "low medium high" -- "$cur")); return ;;
        --json-order) COMPREPLY=($(compgen -W "schema any" -- "$cur")); return ;;
        --json-space) COMPREPLY=($(compgen -W "line any" -- "$cur")); return ;;
        --on-length) COMPREPLY=($(compgen -W "cut close" -- "$cur")); return ;;
        --attention) COMPREPLY=($(compgen -W "- scores ranks" -- "$cur") $(compgen -f -- "$cur")); return ;;
        --positions) COMPREPLY=($(compgen -W "- table" -- "$cur") $(compgen -f -- "$cur")); return ;;
        --score) COMPREPLY=($(compgen -W "no table json" -- "$cur")); return ;;
        --pooling) COMPREPLY=($(compgen -W "auto last mean cls" -- "$cur")); return ;;
        --embed-normalize) COMPREPLY=($(compgen -W "auto yes no" -- "$cur")); return ;;
        --type) COMPREPLY=($(compgen -W "auto f32 f16 bf16 bf16_act q8 q6 q5 q4m q4 q3 q2" -- "$cur")); return ;;
        --isa) COMPREPLY=($(compgen -W "reference avx2 avxvnni avx512 avx512_bf16 amx amx_bf16 neon neon_i8mm" -- "$cur")); return ;;
        --shard) COMPREPLY=($(compgen -W "slurm mpi" -- "$cur")); return ;;
        --draft) COMPREPLY=($(compgen -W "auto none shape lookup model mtp" -- "$cur")); return ;;
        -h | --help) COMPREPLY=($(compgen -W "all" -- "$cur")); return ;;
        --cache-dir) compopt -o dirnames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
        -i | --prompt | -y | --system | --stop | -n | --tokens | -t | --temperature | --top-k | -p | \
            --top-p | --min-p | --repetition-penalty | --presence-penalty | --frequency-penalty | \
            --json-schema | --regex | --grammar | --choice | --reasoning-budget | --logit-bias | -s | --seed | -j | --threads | -c | --context | --chunk | --lookup | --snapshots | \
            --kv-memory | --dimensions | --embed-prompt | --csv-id | \
            --max-concurrent | --override) return ;;
        --split-pattern) COMPREPLY=($(compgen -W "r50k_base p50k_base cl100k_base o200k_base llama3 llama4 qwen whisper" -- "$cur")); return ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "--mode --system --prompt --prompt-file --tokens --stop --ignore-eos
            --special --bos --tokenizer --split-pattern --family --families --output --echo --json-schema --json --regex
            --grammar --choice --json-order --json-space --on-length --shape-test --temperature --top-k --top-p --min-p
            --repetition-penalty --presence-penalty --frequency-penalty --logit-bias --seed --single-turn --session
            --chat-template --reasoning --reasoning-effort --reasoning-budget --hide-reasoning --threads --isa --context --chunk --draft --draft-model --lookup --kv-type --snapshots --stats --no-sandbox --batch --check --batch-text
            --lora
            --csv --csv-id --ordered --shard --merge --resume --retry-failed --strict --live --logits --kv-memory --max-concurrent --embed --pooling --dimensions
            --receipt --replay --receipt-key --quiet
            --bug-report --layers --layer --position --limit --eval-tasks
            --embed-normalize --embed-prompt --embed-truncate --info --verify
            --tokenize --detokenize --render --eval --against --why --attention --score
            --positions --trace --no-cache --override --type --cache-dir --list --cache-list --cache-limit --cache-clear
            --help --version" -- "$cur"))
        return
    fi
    _verbatim_models "$cur" "$prev" "${COMP_WORDS[0]}"
}

# _verbatim_models WORD PREVIOUS PROGRAM: files and, where a model stands, the names that --list of the program has
# and that run: "Org/Name    1.2 GB  F16 ...".
_verbatim_models() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
    [[ -z $1 || $2 != "${COMP_WORDS[0]}" ]] && return
    local name
    while IFS= read -r name; do
        [[ ${name,,} == "${1,,}"* ]] && COMPREPLY+=("$name")
    done < <("${3%-serve}" --list 2>/dev/null | sed -n '/; does not run: /!s/ *[0-9.]* [MG]B  .*//p')
}

_verbatim_export() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
    case $prev in
        -t | --type) COMPREPLY=($(compgen -W "auto f32 f16 bf16 bf16_act q8 q6 q5 q4m q4 q3 q2" -- "$cur")); return ;;
        --random) COMPREPLY=($(compgen -W "tinyllama-1.1b stories15m tiny" -- "$cur")); return ;;
        -j | --threads | --keep | --target-size) return ;;
        --split-pattern) COMPREPLY=($(compgen -W "r50k_base p50k_base cl100k_base o200k_base llama3 llama4 qwen whisper" -- "$cur")); return ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "--type --keep --target-size --lora --kv-heads --calibrate --tokenizer --split-pattern --family --threads --random --force --pooling --no-mtp --no-sandbox --quiet
            --help --version" -- "$cur"))
        return
    fi
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}

_verbatim_bench() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
    case $prev in
        --isa) COMPREPLY=($(compgen -W "reference avx2 avxvnni avx512 avx512_bf16 amx amx_bf16 neon neon_i8mm" -- "$cur")); return ;;
        --type) COMPREPLY=($(compgen -W "auto f32 f16 bf16 bf16_act q8 q6 q5 q4m q4 q3 q2" -- "$cur")); return ;;
        --kv-type) COMPREPLY=($(compgen -W "auto f32 f16 bf16 q8" -- "$cur")); return ;;
        --sweep) COMPREPLY=($(compgen -W "no threads context batch" -- "$cur")); return ;;
        --beside) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
        -j | --threads | --context | --decode | --prefill | --batch) return ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "--threads --isa --type --kv-type --context --sweep --decode --prefill --batch --draft
            --attention --report --beside --quick --json --help --version" -- "$cur"))
        return
    fi
    _verbatim_models "$cur" "$prev" verbatim
}

# The hub's names are not asked for: a key that is pressed opens no connection.
_verbatim_get() {
    local cur=${COMP_WORDS[COMP_CWORD]}
    [[ $cur != -* ]] || COMPREPLY=($(compgen -W "--list --revision --help --version" -- "$cur"))
}

# Behind MODEL all options of verbatim are taken, too.
_verbatim_serve() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} own=()
    case $prev in
        --port | --name) return ;;
        --run) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -c -- "$cur"); return ;;
    esac
    if [[ $cur == -* ]]; then own=($(compgen -W "--port --name --run --help --version" -- "$cur")); fi
    if ((COMP_CWORD > 1)) || [[ $cur != -* ]]; then _verbatim; fi
    COMPREPLY+=("${own[@]}")
}

complete -F _verbatim verbatim
complete -F _verbatim_export verbatim-export
complete -F _verbatim_bench verbatim-bench
complete -F _verbatim_get verbatim-get
complete -F _verbatim_serve verbatim-serve
