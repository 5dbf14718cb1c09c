"use strict";
/* The core in a browser, in three parts: what speaks with the WebAssembly module (ports/browser/story.h) and compares
 * receipts, which runs in a worker and in node; the worker; and the page. `make wasm` puts this file beside
 * embedded.js, which holds the module and the model as base64, so that the page opens from file://. */

/* wasm, model: Uint8Arrays. Returns {tell, replay}. Uses nothing outside itself: the worker is made of its text. */
function makeTeller(wasm, model) {
    const core = new WebAssembly.Instance(new WebAssembly.Module(wasm), {}).exports;
    const encoder = new TextEncoder();
    core._initialize();

    /* ---- Memory of the module ---- */

    const bytesAt = (pointer, n) => new Uint8Array(core.memory.buffer, pointer, n);
    const textAt = (pointer) => {
        const rest = bytesAt(pointer), n = rest.indexOf(0);
        return new TextDecoder().decode(rest.slice(0, n));
    };
    function put(bytes) {
        const pointer = core.story_memory(bytes.length + 1);
        if (!pointer) throw new Error("no memory");
        bytesAt(pointer, bytes.length).set(bytes);
        return pointer;
    }
    const digestPointer = put(new Uint8Array(65));
    let scratch = put(new Uint8Array(4096)), scratchBytes = 4096; /* for prompts and what is hashed */
    function putScratch(bytes) {
        if (bytes.length > scratchBytes) {
            scratchBytes = 2 * bytes.length;
            scratch = put(new Uint8Array(scratchBytes));
        }
        bytesAt(scratch, bytes.length).set(bytes);
        return scratch;
    }
    function sha256(bytes) {
        core.story_sha256(putScratch(bytes), bytes.length, digestPointer);
        return textAt(digestPointer);
    }
    function join(parts) {
        const all = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
        let at = 0;
        for (const part of parts) {
            all.set(part, at);
            at += part.length;
        }
        return all;
    }

    const story = core.story_open(put(model), model.length);
    const fail = () => { throw new Error(textAt(core.story_error(story))); };
    if (textAt(core.story_error(story))) fail();

    /* ---- One text ---- */

    /* The numbers of StoryOptions under the names of a receipt's settings. */
    const NUMBERS = ["temperature", "top-p", "min-p", "repetition-penalty", "presence-penalty", "frequency-penalty",
        "top-k", "tokens", "context"];
    function options() {
        const pointer = core.story_options(story);
        return {numbers: new Float64Array(core.memory.buffer, pointer, NUMBERS.length),
                seed: new BigUint64Array(core.memory.buffer, pointer + 8 * NUMBERS.length, 1)};
    }
    const own = Array.from(options().numbers); /* what the model recommends */

    function begin(prompt, settings) {
        const bytes = encoder.encode(prompt), chosen = options();
        NUMBERS.forEach((name, i) => { chosen.numbers[i] = name in settings ? settings[name] : own[i]; });
        chosen.seed[0] = settings.seed;
        if (core.story_begin(story, putScratch(bytes), bytes.length) !== 0) fail();
    }

    /* settings: {seed: BigInt, NAME: number}. Calls say(bytes) for each piece of text. */
    function tell(prompt, settings, say) {
        const pieces = [], start = performance.now();
        begin(prompt, settings);
        for (let more = 1; more > 0;) {
            more = core.story_next(story);
            if (more < 0) fail();
            pieces.push(bytesAt(core.story_text(story), core.story_length(story)).slice());
            if (say) say(pieces[pieces.length - 1]);
        }
        const seconds = (performance.now() - start) / 1000, text = join(pieces);
        return {bytes: text, seconds, tokens: core.story_n_tokens(story), promptTokens: core.story_n_prompt(story),
                finish: textAt(core.story_finish(story)), sha256: sha256(text),
                /* with the newline that run adds */
                printed: sha256(join([text, encoder.encode("\n")]))};
    }

    /* ---- Receipts (docs/receipts.md) ---- */

    /* Returns [value, text without spaces and with sorted keys]: the seal is made of the second, in which numbers
     * stand as they were written. The seal of the outermost object is left out. */
    function parse(text) {
        const token = /[ \t\r\n]*("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|[{}[\],:]|$)/y;
        let next;
        const advance = () => {
            const found = token.exec(text);
            if (!found) throw new Error("it is not JSON");
            const before = next;
            next = found[1];
            return before;
        };
        const expect = (what) => {
            if (next !== what) throw new Error("it is not JSON");
            advance();
        };
        const quote = (string) => JSON.stringify(string)
            .replace(/\\u[0-9a-f]{4}/g, (code) => "\\u" + code.slice(2).toUpperCase());
        function list(close, item) {
            advance();
            for (let first = true; next !== close; first = false) {
                if (!first) expect(",");
                item();
            }
            advance();
        }
        function value(depth) {
            if (depth > 64) throw new Error("it is nested too deeply");
            if (next === "{") {
                const object = Object.create(null), texts = [];
                list("}", () => {
                    if (next[0] !== '"') throw new Error("it is not JSON");
                    const key = JSON.parse(advance());
                    expect(":");
                    if (key in object) throw new Error("it has a key twice: " + key);
                    const [inner, innerText] = value(depth + 1);
                    object[key] = inner;
                    if (depth > 0 || key !== "seal") texts.push([key, quote(key) + ":" + innerText]);
                });
                texts.sort((a, b) => (a[0] < b[0] ? -1 : 1));
                return [object, "{" + texts.map((pair) => pair[1]).join(",") + "}"];
            }
            if (next === "[") {
                const array = [], texts = [];
                list("]", () => {
                    const [inner, innerText] = value(depth + 1);
                    array.push(inner);
                    texts.push(innerText);
                });
                return [array, "[" + texts.join(",") + "]"];
            }
            const word = advance();
            const simple = JSON.parse(word || "?");
            if (typeof simple === "string") return [simple, quote(simple)];
            return [typeof simple === "number" && !Number.isSafeInteger(simple) && /^-?[0-9]+$/.test(word) ?
                BigInt(word) : simple, word];
        }
        advance();
        const whole = value(0);
        if (next !== "") throw new Error("something follows it");
        return whole;
    }

    function readFacts() {
        const pointer = core.story_facts(story);
        if (!pointer) fail();
        const facts = {tensors: {}};
        for (const line of textAt(pointer).trim().split("\n")) {
            const [name, fact, ...more] = line.split(" ");
            if (name.startsWith("tensors.")) facts.tensors[name.slice(8)] = fact;
            else if (name === "repeated_revisions") facts[name] = [fact, ...more];
            else facts[name] = fact === "null" ? null : fact;
        }
        return facts;
    }

    const show = (x) => (x === undefined ? "nothing" : typeof x === "object" ?
        JSON.stringify(x, (key, inner) => (typeof inner === "bigint" ? String(inner) : inner)) : String(x));

    /* Compares a receipt of one text, and the text itself where `answer` (a Uint8Array, or null) has it, with what
     * the model gives. Returns {same: true, false or null (not all was checked), parts: [{part, same, expected, got,
     * why}], told}. */
    function replay(text, answer, say) {
        const parts = [];
        const compare = (part, expected, got) =>
            parts.push({part, same: show(expected) === show(got), expected: show(expected), got: show(got)});
        const unchecked = (part, why) => parts.push({part, same: null, why});
        const compareKeys = (part, expected, got) => { /* of what the receipt says alone there is nothing to give */
            for (const key of new Set([...Object.keys(expected || {}), ...Object.keys(got)]))
                if (key in Object(expected)) compare(part + key, expected[key], got[key]);
                else unchecked(part + key, "the receipt does not say");
        };
        const verdict = (told) => ({parts, told, same: parts.some((p) => p.same === false) ? false :
            parts.some((p) => p.same === null) ? null : true});

        const [receipt, canonical] = parse(text), isObject = (x) => x && typeof x === "object" && !Array.isArray(x);
        if (!isObject(receipt) || !["program", "model", "settings", "tensors"].every((key) => isObject(receipt[key])) ||
            !Array.isArray(receipt.items))
            throw new Error("it is not a receipt");
        const version = receipt.verbatim_receipt;
        if (version !== 1 && version !== 2) throw new Error("it is a receipt of version " + show(version));
        compare("seal", receipt.seal, sha256(encoder.encode(canonical)));
        const known = ["verbatim_receipt", "kind", "key", "program", "model", "settings", "tensors", "items", "count", "seal"];
        for (const key of Object.keys(receipt)) if (!known.includes(key)) compare(key, receipt[key], undefined);
        if (version === 2) compare("count", receipt.count, receipt.items.length);
        if (receipt.kind !== "text" || receipt.key || receipt.items.length !== 1) {
            unchecked("items", "this page repeats one text whose prompt is not keyed; run --replay repeats the others");
            return verdict();
        }

        const item = receipt.items[0], prompt = isObject(item) && isObject(item.prompt) ? item.prompt.text : undefined;
        const settings = {seed: 0n};
        for (const [name, expected] of Object.entries(receipt.settings)) {
            if (name === "seed" && /^[0-9]{1,20}$/.test(show(expected)) && BigInt(expected) < 2n ** 64n)
                settings.seed = BigInt(expected);
            else if (NUMBERS.includes(name) && typeof expected === "number") settings[name] = expected;
            else if (!["eos", "kv-type"].includes(name)) unchecked("settings." + name, "this page does not know it");
        }
        if (typeof prompt !== "string" || parts.some((p) => p.same === null)) {
            if (typeof prompt !== "string") unchecked("item.prompt", "it is no text");
            return verdict();
        }
        begin("", {seed: 0n}); /* the model's facts need no prompt */
        let facts = readFacts();
        const revision = receipt.program.numeric_revision; /* an earlier one may compute texts without a shape alike */
        compare("numeric_revision", revision, typeof revision === "number" && facts.repeated_revisions.includes(show(revision)) ?
            revision : Number(facts.numeric_revision));
        compare("weights", receipt.model.weights, facts.weights);
        if (receipt.model.weights !== facts.weights) {
            for (const name of Object.keys(facts.tensors))
                if (receipt.tensors[name] !== facts.tensors[name])
                    compare("tensors." + name, receipt.tensors[name], facts.tensors[name]);
            return verdict(); /* of other weights: nothing is repeated */
        }
        const differing = Object.keys({...receipt.tensors, ...facts.tensors})
            .filter((name) => receipt.tensors[name] !== facts.tensors[name]);
        compare("tensors", differing.length ? differing : "all", "all");
        for (const name of ["config", "tokenizer", "template"]) compare(name, receipt.model[name], facts[name]);
        for (const name of Object.keys(receipt.model))
            if (!["name", "weights", "config", "tokenizer", "template"].includes(name))
                unchecked(name, "this page does not check it");

        const told = tell(prompt, settings, say);
        facts = readFacts();
        const used = {seed: settings.seed, eos: facts.eos.split(",").map(Number), "kv-type": facts["kv-type"]};
        NUMBERS.forEach((name, i) => { used[name] = options().numbers[i]; });
        for (const name of NUMBERS) /* the model's are float32 */
            if (Math.fround(receipt.settings[name]) === Math.fround(used[name])) used[name] = receipt.settings[name];
        compareKeys("settings.", receipt.settings, used);
        compareKeys("item.prompt.", item.prompt, {text: prompt, sha256: sha256(encoder.encode(prompt))});
        compare("item.prompt_tokens", item.prompt_tokens, [facts.prompt_tokens]);
        const answers = Array.isArray(item.answers) ? item.answers : [];
        compare("item.answers", answers.length, 1);
        compareKeys("item.answers[0].", answers[0],
            {seed: String(settings.seed), sample: 0, sha256: told.sha256, tokens: told.tokens, finish: told.finish});
        for (const key of Object.keys(item))
            if (!["prompt", "prompt_tokens", "answers"].includes(key)) compare("item." + key, item[key], key === "number" ? 1 : undefined);
        if (answer) {
            const byte = firstDifference(answer, told.bytes);
            parts.push({part: "text", same: byte < 0, expected: byte < 0 ? "all bytes" : "another byte " + byte,
                        got: told.bytes.length + " bytes", byte});
        }
        return verdict(told);
    }

    /* The first byte that differs, counted as `run --check` counts it, from 0; -1: none. A newline may follow. */
    function firstDifference(recorded, bytes) {
        const n = recorded.length === bytes.length + 1 && recorded[bytes.length] === 10 ? bytes.length : recorded.length;
        for (let i = 0; i < Math.max(n, bytes.length); i++)
            if (i >= n || recorded[i] !== bytes[i]) return i;
        return -1;
    }

    return {tell, replay};
}

/* ---- The worker: {tell: [prompt, settings]} or {replay: [receipt, answer]} in; {text}, {done}, {error} out ---- */

function serveTeller() {
    let teller, opened;
    onmessage = ({data}) => {
        const say = (text) => postMessage({text});
        try {
            if (data.open) opened = data.open;
            if (!teller) teller = makeTeller(...opened);
            if (data.open) return;
            if (data.tell) postMessage({done: teller.tell(...data.tell, say)});
            else postMessage({done: teller.replay(...data.replay, say)});
        } catch (error) {
            if (error instanceof WebAssembly.RuntimeError) teller = null; /* its memory may be in any state */
            postMessage({error: error.message});
        }
    };
}

/* ---- The page ---- */

function startPage(embedded) {
    const at = (id) => document.getElementById(id);
    const decode = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const wasm = decode(embedded.wasm), model = decode(embedded.model);
    const code = URL.createObjectURL(new Blob([`${makeTeller}\n(${serveTeller})();`], {type: "text/javascript"}));
    let worker, decoder, refuse;

    function startWorker() {
        worker = new Worker(code);
        worker.postMessage({open: [wasm, model]});
    }

    /* Sends a request and shows the text as it comes. Resolves to its result. */
    function ask(request) {
        at("text").textContent = "";
        at("stop").disabled = false;
        decoder = new TextDecoder();
        return new Promise((resolve, reject) => {
            refuse = reject;
            worker.onerror = (event) => reject(new Error(event.message));
            worker.onmessage = ({data}) => {
                if (data.text) at("text").textContent += decoder.decode(data.text, {stream: true});
                else if (data.error) reject(new Error(data.error));
                else resolve(data.done);
            };
            worker.postMessage(request);
        }).finally(() => { at("stop").disabled = true; });
    }

    const speed = (told) => `${told.tokens} tokens in ${told.seconds.toFixed(2)} s, ` +
        `${(told.tokens / told.seconds).toFixed(1)} tokens a second`;

    let busy = false;
    async function once(what, where) { /* one request at a time */
        if (busy) return;
        busy = true;
        at(where).textContent = "Computing...";
        try {
            await what();
        } catch (error) {
            at(where).textContent = error.message;
        }
        busy = false;
    }

    function row(table, cells) {
        const tr = document.createElement("tr");
        for (const cell of cells) {
            const td = document.createElement("td");
            for (const line of [].concat(cell)) {
                const part = document.createElement("div"), inner = document.createElement("code");
                inner.textContent = line;
                part.append(inner);
                td.append(part);
            }
            tr.append(td);
        }
        at(table).append(tr);
        return tr;
    }

    at("form").onsubmit = (event) => {
        event.preventDefault();
        once(async () => {
            const told = await ask({tell: [at("prompt").value, {seed: BigInt(at("seed").value), tokens: Number(at("tokens").value)}]});
            at("status").textContent = `SHA-256 of the text as run prints it: ${told.printed}. ${speed(told)}.`;
        }, "status");
    };

    at("stop").onclick = () => {
        worker.terminate();
        startWorker();
        refuse(new Error("Stopped."));
    };

    const rows = embedded.stories.map(({seed, sha256}) => row("stories", [String(seed), sha256, ""]));
    const tellThree = () => once(async () => {
        let tokens = 0, seconds = 0, same = 0;
        for (const [i, {seed, sha256}] of embedded.stories.entries()) {
            const told = await ask({tell: ["", {seed: BigInt(seed), tokens: 0}]});
            tokens += told.tokens;
            seconds += told.seconds;
            same += told.printed === sha256;
            const next = row("stories", [String(seed), [sha256, told.printed], told.printed === sha256 ? "yes" : "NO"]);
            rows[i].replaceWith(next);
            rows[i] = next;
        }
        at("status").textContent = `${same} of ${rows.length} stories have the README's bytes. ${speed({tokens, seconds})}.`;
    }, "status");
    at("three").onclick = tellThree;

    const words = (same) => (same === null ? "not checked" : same ? "yes" : "NO");
    async function checkFiles(files) {
        const read = await Promise.all([...files].map(async (file) => new Uint8Array(await file.arrayBuffer())));
        const isReceipt = (bytes) => new TextDecoder().decode(bytes).includes('"verbatim_receipt"');
        const receipt = read.find(isReceipt), answer = read.find((bytes) => bytes !== receipt) || null;
        await once(async () => {
            at("report").replaceChildren();
            if (!receipt) throw new Error("None of these files is a receipt.");
            const result = await ask({replay: [new TextDecoder().decode(receipt), answer]});
            for (const part of result.parts)
                row("report", [part.part, words(part.same), part.why || (part.same ? part.got : [part.expected, part.got])]);
            const wrong = result.parts.filter((part) => part.same === false).map((part) => part.part);
            const text = result.parts.find((part) => part.part === "text");
            at("verdict").textContent = (result.same === true ? "Same: the model gives what this receipt says." :
                result.same === null ? "Not all was checked." : `Not the same: ${wrong.join(", ")}.`) +
                (text && !text.same ? ` The first byte that differs is ${text.byte}.` : "") +
                (wrong.includes("item.answers[0].sha256") && !text ?
                    " A receipt holds no text: give the text's file with it to see which byte." : "") +
                (result.told ? ` ${speed(result.told)}.` : "");
        }, "verdict");
    }
    at("files").onchange = (event) => checkFiles(event.target.files);
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => {
        event.preventDefault();
        checkFiles(event.dataTransfer.files);
    });

    startWorker();
    if (location.hash === "#stories") tellThree();
}

if (typeof document !== "undefined") {
    if (typeof EMBEDDED === "undefined") document.getElementById("missing").hidden = false;
    else startPage(EMBEDDED);
} else if (typeof module !== "undefined") {
    module.exports = {makeTeller};
}
