#include "advice/foreign.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system/program_name.h"

#define usage(...) (error_set(__VA_ARGS__), STATUS_USAGE)

#define PROGRAM program_invocation_short_name

/* ---- Options ----------------------------------------------------------------------------------
 */

/* Other names of options that we have. */
static const struct {
    const char *theirs, *ours;
} synonyms[] = {
    {"temp", "temperature"},
    {"n-predict", "tokens"},
    {"num-predict", "tokens"},
    {"max-tokens", "tokens"},
    {"max-new-tokens", "tokens"},
    {"max-length", "tokens"},
    {"steps", "tokens"},
    {"ctx-size", "context"},
    {"num-ctx", "context"},
    {"n-ctx", "context"},
    {"max-seq-len", "context"},
    {"max-model-len", "context"},
    {"repeat-penalty", "repetition-penalty"},
    {"file", "prompt-file"},
    {"b", "chunk"},
    {"ub", "chunk"},
    {"batch-size", "chunk"},
    {"ubatch-size", "chunk"},
    {"prompt-lookup-num-tokens", "lookup"},
    {"draft-max", "lookup"},
    {"model-draft", "draft-model"},
    {"md", "draft-model"},
    {"assistant-model", "draft-model"},
    {"perplexity", "eval"},
    {"embd-normalize", "embed-normalize"},
    {"normalize", "embed-normalize"},
    {"default-prompt-name", "embed-prompt"},
    {"auto-truncate", "embed-truncate"},
    {"ctk", "kv-type"},
    {"ctv", "kv-type"},
    {"cache-type-k", "kv-type"},
    {"cache-type-v", "kv-type"},
    {"kv-cache-dtype", "kv-type"},
    {"dtype", "type"},
    {"torch-dtype", "type"},
    {"outtype", "type"},
    {"quantize", "type"},
    {"quantization", "type"},
    {"usage", "help"},
    {"input", "prompt"},
    {"sys", "system"},
    {"system-prompt", "system"},
    {"schema", "json-schema"},
    {"guided-json", "json-schema"},
    {"guided-regex", "regex"},
    {"guided-choice", "choice"},
    {"guided-grammar", "grammar"},
    {"r", "stop"},
    {"reverse-prompt", "stop"},
    {"stop-token-ids", "stop"},
    {"lora-scaled", "lora"},
    {"lora-modules", "lora"},
    {"lora-path", "lora"},
    {"enable-lora", "lora"},
    {"adapter", "lora"},
    {"np", "max-concurrent"},
    {"parallel", "max-concurrent"},
    {"max-num-seqs", "max-concurrent"},
    {"concurrency", "max-concurrent"},
    {"num-threads", "threads"},
    {"num-thread", "threads"},
    {"workers", "threads"},
    {"check-tensors", "verify"},
    {"?", "help"},
    {"ls", "list"},
    {"timings", "stats"},
    {"predict", "tokens"},
    {"n", "tokens"},
    {"max-output-tokens", "tokens"},
    {"out", "output"},
    {"output-file", "output"},
    {"input-file", "prompt-file"},
    {"V", "version"},
    {"prompt-cache", "session"},
    {"save-session", "session"},
    {"think", "reasoning"},
    {"stop-token", "stop"},
    {"ppl", "eval"},
    {"enable-thinking", "reasoning"},
    {"hidethinking", "hide-reasoning"},
    {"repetition-penalty-range", "repetition-penalty"},
    {"st", "single-turn"},
};

const char *foreign_synonym(const char *name) {
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (strcmp(synonyms[i].theirs, name) == 0) return synonyms[i].ours;
    return NULL;
}

static const char cpu[] = "this program computes on the CPU alone: leave it out";
static const char mapped[] = "the model is always mapped from its file: leave it out";
static const char talk[] = "to talk: -m chat";
static const char no_download[] =
    "nothing is downloaded here: ./get ORG/NAME first, then name it, ORG/NAME";
static const char no_server[] =
    "./serve MODEL serves OpenAI's API on localhost; --batch FILE answers many requests";
static const char text_only[] = "this program reads only text";
static const char no_vector[] = "control vectors are not read; of adapters, LoRA: --lora NAME=PATH";
static const char same_bits[] = "the result is the same whatever the machine does: leave it out";
static const char jinja[] = "the model's own template is always used: leave it out";

/* Options of others that we have no option for. */
static const struct {
    const char *names, *says; /* names between spaces */
} others[] = {
    {" model ", "the model stands alone, run MODEL [options]"},
    {" cnv conversation interactive interactive-first if chat ", talk},
    {" no-cnv no-conversation ", "without -m chat the text is continued: leave it out"},
    {" hf hfr hff hf-repo hf-file mu model-url dr docker-repo ", no_download},
    {" ngl gpu-layers n-gpu-layers mg main-gpu ts tensor-split sm split-mode dev device gpu cuda "
     "device-map ot override-tensor tensor-parallel-size gpu-memory-utilization ncmoe cmoe "
     "nkvo no-kv-offload kvo kv-offload ",
     cpu},
    {" mlock no-mmap mmap low-cpu-mem-usage ", mapped},
    {" fa flash-attn flash-attention numa cpu-mask C poll prio cb cont-batching "
     "enforce-eager deterministic ",
     same_bits},
    {" jinja chat-template-file ", jinja},
    {" mm mmproj image images audio attachment ", text_only},
    {" in-prefix in-suffix in-prefix-bos ",
     "a chat's messages stand where the model's own template puts them: leave it out"},
    {" chat-template-kwargs ", "a request of --batch has them, in its line: docs/batch.md"},
    {" offline ", "this program never opens a connection: leave it out"},
    {" output-format ", "results of --batch are lines of JSON: leave it out"},
    {" control-vector control-vector-scaled ", no_vector},
    {" serve server host port api-key served-model-name ", no_server},
    {" embedding embeddings ", "a text on each line: --embed FILE"},
    {" rerank reranking ", "lines with 'query' and 'documents': --batch FILE"},
    {" trust-remote-code ", "no code of a model is ever run: leave it out"},
    {" format ", "JSON of any form: --json; of a schema: --json-schema TEXT"},
    {" tb threads-batch ", "-j N is the number of threads for prompts, too"},
    {" keepalive ", "nothing stays in memory but the file cache: leave it out"},
    {" reasoning-format ", "--hide-reasoning leaves out what the model thinks"},
    {" mli multiline-input ",
     "a line of the chat that ends in \\ goes on; --single-turn takes all of "
     "stdin as one message"},
    {" help-all ", "every option: --help all"},
    {" nothink no-think no-thinking ", "a model answers at once with --reasoning off"},
    {" logprobs top-logprobs ", "--score table prints them; in a batch they are asked for by line"},
    {" tools ", "a request of --batch has them, in its line: docs/batch.md"},
    {" list-devices ", cpu},
    {" force overwrite ",
     "results of --batch are never overwritten, a text's -o replaces its file: leave it out"},
    {" verbose v lv log-verbosity verbosity ", "versions: --version; speed and memory: --stats"},
    {" e escape ", "a shell's $'...' writes newlines: -i $'one\\ntwo'"},
    {" no-stream ", "a pipe gets whole results: -o FILE, or --batch"},
    {" stream ", "the text is always written as it comes: leave it out"},
    {" l ", "--logit-bias ID=X adds X to a token's logit; repeatable"},
    {" do-sample ", "-t 0 always takes the likeliest token; a higher temperature samples"},
    {" greedy ", "-t 0 always takes the likeliest token"},
    {" num-beams beam-size ",
     "there is no beam search: -t 0 takes the likeliest token at each step"},
    {" load-in-8bit int8 ", "--type q8 converts the weights to 8 bits"},
    {" load-in-4bit int4 ", "--type q4m converts the weights to 4 bits"},
    {" json-schema-file jf ", "--json-schema @FILE reads the schema from a file"},
    {" grammar-file ", "--grammar @FILE reads the grammar from a file"},
    {" sysf system-prompt-file ", "-y @FILE reads the system prompt from a file"},
    {" samplers sampler-seq mirostat mirostat-lr mirostat-ent typical typical-p xtc-probability "
     "xtc-threshold dry-multiplier dry-base dry-allowed-length dynatemp-range top-n-sigma "
     "no-repeat-ngram-size epsilon-cutoff eta-cutoff ",
     "not among the samplers here, which are --top-k, -p and --min-p (docs/command-line.md)"},
    {" rope-scaling rope-scale rope-freq-base rope-freq-scale yarn-orig-ctx yarn-ext-factor "
     "yarn-attn-factor ",
     "the model's own scaling is used, and -c N adapts it; --override rope_theta=X changes it"},
    {" nowordwrap ", "a pipe gets lines that are not wrapped"},
    {" it i-t ", "-m chat talks; -i TEXT continues a text"},
    {" verbose-prompt ", "--render prints the prompt of a conversation, --tokenize its ids"},
    {" keep context-shift no-context-shift ",
     "a chat leaves out its oldest exchanges when the context is full: leave it out"},
    {" repeat-last-n penalty-last-n ",
     "--repetition-penalty counts all tokens of prompt and text: leave it out"},
    {" color simple-io log-disable no-display-prompt ",
     "only the answer goes to stdout: leave it out"},
    {" no-warmup warmup ", "nothing is computed before the prompt: leave it out"},
    {" no-perf perf ", "speed is printed by --stats alone: leave it out"},
};

/* Options of llama.cpp's tools that correspond to `export` and `get`, and what to use instead. */
static const struct {
    const char *program, *names, *says;
} of_tools[] = {
    {"export", " o outfile output out ", "the result stands after the source: SOURCE TARGET"},
    {"export", " imatrix ", "--calibrate FILE runs a text instead"},
    {"export", " model m ", "the model stands alone: SOURCE TARGET"},
    {"bench", " model m ", "the model stands alone: bench MODEL [options]"},
    {"bench", " p n-prompt pp ", "--prefill N measures a prompt of N tokens"},
    {"bench", " n n-gen tg ", "--decode N measures one token after N positions"},
    {"bench", " t ", "-j N is the number of threads"},
    {"bench", " d n-depth ", "--decode N measures one token after N positions"},
    {"bench", " o output ", "--json prints the results as JSON"},
    {"bench", " r repetitions ", "each figure is measured until it is steady: leave it out"},
};

static bool is_listed(const char *names, const char *name) {
    size_t n = strlen(name);
    for (const char *at = names; n > 0 && (at = strstr(at, name)); at++)
        if (at[-1] == ' ' && at[n] == ' ') return true;
    return false;
}

const char *foreign_option(const char *program, const char *name) {
    for (size_t i = 0; !program && i < sizeof others / sizeof *others; i++)
        if (is_listed(others[i].names, name)) return others[i].says;
    for (size_t i = 0; program && i < sizeof of_tools / sizeof *of_tools; i++)
        if (strcmp(of_tools[i].program, program) == 0 && is_listed(of_tools[i].names, name))
            return of_tools[i].says;
    return NULL;
}

/* ---- Values -----------------------------------------------------------------------------------
 */

static bool is_whole(const char *text) {
    return *text && text[strspn(text, "0123456789")] == '\0';
}

static bool is_number(const char *text) {
    char *end;
    strtod(text, &end);
    return end != text && *end == '\0';
}

/* Words that are commands of ollama and llm, and what they do here. */
static const struct {
    const char *word, *says;
} commands[] = {
    {"run", "there are no commands: run MODEL -m chat talks, run MODEL -i TEXT continues a text"},
    {"chat", "there are no commands: run -m chat talks with the model that ships, run MODEL -m "
             "chat with another"},
    {"list", "there are no commands: run --list shows the models on this machine"},
    {"ls", "there are no commands: run --list shows the models on this machine"},
    {"models", "there are no commands: run --list shows the models on this machine"},
    {"show", "there are no commands: run MODEL --info describes a model"},
    {"stop", "there are no commands: a model is in memory only while run answers"},
    {"cp", "there are no commands: a model is a file, or a directory of files, for cp itself"},
    {"push", "nothing is uploaded here"},
    {"download", "nothing is downloaded here: ./get ORG/NAME or ollama pull NAME; then run NAME"},
    {"pull", "nothing is downloaded here: ./get ORG/NAME or ollama pull NAME; then run NAME"},
    {"serve", "./serve MODEL serves OpenAI's API on localhost; run MODEL --batch FILE answers many "
              "requests"},
    {"create", "./export SOURCE TARGET writes a model.bin"},
    {"quantize", "./export SOURCE TARGET --type q8 writes a model.bin of 8 bits"},
    {"prompt", "there are no commands: run MODEL -i TEXT continues a text"},
    {"help", "there are no commands: run --help lists the usual options"},
    {"version", "there are no commands: run --version prints it"},
    {"ps", "there are no commands: a model is in memory only while run answers"},
    {"rm",
     "there are no commands: run --cache-clear NAME deletes a conversion; models are only read"},
};

/* Whether the directory holds a model, or files that are models. */
static bool holds_model(const char *path) {
    static const char *const endings[] = {".gguf", ".bin"};
    DIR *directory = opendir(path);
    bool found = false;
    for (struct dirent *entry; directory && !found && (entry = readdir(directory));) {
        size_t n = strlen(entry->d_name);
        found = strcmp(entry->d_name, "config.json") == 0;
        for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
            found |= n > strlen(endings[i]) &&
                     strcmp(entry->d_name + n - strlen(endings[i]), endings[i]) == 0;
    }
    if (directory) closedir(directory);
    return found;
}

/* Whether a file that may be a model has this name. In a checkout `run` is the program, and `chat`
 * a directory of its source. */
static bool may_be_model(const char *word) {
    struct stat info;
    if (stat(word, &info) != 0) return false;
    return S_ISDIR(info.st_mode) ? holds_model(word) : access(word, X_OK) != 0;
}

/* After --help a word is what the help is to be about. */
static bool asks_for_help(const CommandLine *line) {
    size_t i;
    return command_line_find(line, "help", &i) && line->given[i];
}

static Status operand(const char *word, Error *error) {
    if (is_whole(word) && !may_be_model(word))
        return usage(error,
                     "%s is not a model. --layers takes no number: it prints the layers, which all "
                     "run on the processor",
                     word);
    if (word[0] == '{')
        return usage(error,
                     "a schema goes after --json-schema, -j is the number of threads and "
                     "--json takes none: --json-schema '%s'",
                     word);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].word, word) == 0 && !may_be_model(word)) {
            char says[256];
            program_names_put(commands[i].says, says, sizeof says);
            return usage(error, "%s: %s", word, says);
        }
    return STATUS_OK;
}

/* Tells a user who gives --json-schema, --regex or --grammar a file's name to put @ before it. */
static Status shape(const char *spelled, const char *value, Error *error) {
    bool takes_shape = strcmp(spelled, "--json-schema") == 0 || strcmp(spelled, "--regex") == 0 ||
                       strcmp(spelled, "--grammar") == 0;
    struct stat info;
    if (!takes_shape) return STATUS_OK;
    size_t n = strlen(value);
    /* No schema ends so, but the name of a file that is mistyped does. */
    if (strcmp(spelled, "--json-schema") == 0 && value[0] != '@' && n > 5 &&
        strcmp(value + n - 5, ".json") == 0 && stat(value, &info) != 0)
        return usage(error, "%s %s: no such file, and no schema; a file is read as %s @FILE",
                     spelled, value, spelled);
    if (stat(value, &info) != 0 || !S_ISREG(info.st_mode)) return STATUS_OK;
    return usage(error, "%s %s: a file is read as %s @%s", spelled, value, spelled, value);
}

Status foreign_value(const CommandLine *line, const char *spelled, const char *value,
                     Error *error) {
    if (!spelled[0]) return asks_for_help(line) ? STATUS_OK : operand(value, error);
    if (shape(spelled, value, error) != STATUS_OK) return STATUS_USAGE;
    bool letter = spelled[1] != '-' && spelled[1] && !spelled[2];
    char c = letter ? spelled[1] : '\0';
    if (c == 'm' && strcmp(value, "chat") != 0 && strcmp(value, "generate") != 0 &&
        strpbrk(value, "./:0123456789"))
        return usage(error, "-m is the mode; the model stands alone: %s %s", PROGRAM, value);
    if (c == 'i' && value[0] == '@' && value[1] && access(value + 1, R_OK) == 0)
        return usage(error,
                     "-i %s: a prompt is read from a file by -f %s (if the text is meant: --prompt "
                     "%s)",
                     value, value + 1, value);
    if (c == 'p' && !is_number(value))
        return usage(error, "-p is top-p; the prompt goes after -i: -i '%s'", value);
    if (c == 't' && is_whole(value) && atoi(value) >= 2)
        return usage(
            error,
            "-t is the temperature, and %s is very hot (if it is meant: --temperature %s); "
            "threads: -j %s",
            value, value, value);
    if ((c == 's' || strcmp(spelled, "--seed") == 0) && strcmp(value, "-1") == 0)
        return usage(error, "%s -1: without %s a seed is drawn", spelled, spelled);
    if (c == 's' && isalpha((unsigned char)value[0]))
        return usage(error, "-s is the seed; the system prompt goes after -y: -m chat -y '%s'",
                     value);
    if (c == 'j' && value[0] == '{')
        return usage(error, "-j is the number of threads; a schema goes after --json-schema");
    if ((c == 'n' || strcmp(spelled, "--tokens") == 0) && value[0] == '-' && is_whole(value + 1))
        return usage(error, "%s %s: up to the end of the context is %s 0", spelled, value, spelled);
    if (strcmp(spelled, "--top-k") == 0 && strcmp(value, "-1") == 0)
        return usage(error, "--top-k -1: all tokens are --top-k 0, the default");
    if ((c == 'c' || strcmp(spelled, "--context") == 0) && strcmp(value, "0") == 0)
        return usage(error, "%s 0: without %s the context is the model's", spelled, spelled);
    return STATUS_OK;
}
