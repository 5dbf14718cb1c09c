"""Samples from a Hugging Face directory of to_hf.py: stories from openings, and chats.

    python sample.py HFDIR [--count 10] [--openings | --chats]

Without a choice it tells stories from nothing. Nothing is selected: seeds are 0, 1, 2, ...
"""

import argparse

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

OPENINGS = [
    "Once upon a time there was a dragon who was afraid of mice.",
    "The old lighthouse stood on a hill.",
    "Sara did not want to go to school.",
    '"Who ate my cake?" asked the bear.',
    "In the middle of the city there was a tiny shop.",
    "A cat and a mouse lived in the same house.",
    "It was the first day of winter.",
    "Tom had a red bicycle.",
    "My grandmother told me this story.",
    "The spaceship landed in the garden.",
    "There were once three brothers.",
    "Every night the little star looked down at the earth.",
    "Zorblax the penguin wanted to be a pilot.",
    "The rain would not stop.",
    "One day a boy found a door in a tree.",
    "Lily and her dog Max went to the beach.",
    "A poor farmer had a magic goose.",
    '"I am not tired," said the little owl.',
    "The king had lost his crown.",
    "Once there was a very small elephant",
    "In a land of snow and ice, there lived a polar bear named Frosty.",
    "Ana wanted to bake bread for her father.",
    "The train was late.",
    "A wolf came to the village.",
    "Nobody liked the giant.",
]
CHATS = [
    [
        "Hello!",
        "What is your name?",
        "Tell me a story about a fox.",
        "What was the fox called?",
        "What did the fox learn?",
        "Thank you!",
    ],
    ["Hi, my name is Robert.", "What is my name?", "What is 7 plus 8?", "What is 20 - 6?", "Bye!"],
    [
        "Tell me a story about a girl named Nadia who lost her hat.",
        "What did Nadia lose?",
        "Who helped Nadia?",
        "Where was the hat?",
    ],
    [
        "What color is the sky?",
        "What is the capital of France?",
        "What is the opposite of hot?",
        "What day comes after Friday?",
        "What does a cow say?",
    ],
    [
        "can you tell me a story about a brave robot and a dragon",
        "who was the story about",
        "was it a true story?",
    ],
    [
        "What is 3+4?",
        "And 3+5?",
        "I have 9 apples and eat 4. How many apples do I have?",
        "Which is bigger, 12 or 9?",
    ],
    [
        "Who is the president of the United States?",
        "Tell me a story about sharing.",
        "Who was hungry?",
        "Another one, please.",
        "What was the name of his friend?",
    ],
    ["I am sad.", "Yes, please.", "That was nice.", "Goodbye"],
    [
        "Good morning",
        "How are you?",
        "Do you like animals?",
        "Tell me about a penguin.",
        "What is a baby cat called?",
    ],
    [
        "Write a story about a teapot that wanted to fly.",
        "What was the teapot called?",
        "Where did it live?",
        "Good night!",
    ],
]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("model"), p.add_argument("--count", type=int, default=10)
    p.add_argument("--openings", action="store_true"), p.add_argument(
        "--chats", action="store_true"
    )
    p.add_argument("--temperature", type=float, default=0.7), p.add_argument(
        "--top-p", type=float, default=0.95
    )
    args = p.parse_args()
    torch.set_num_threads(2)
    tok = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)

    def go_on(ids, seed):
        torch.manual_seed(seed)
        ids = torch.tensor([ids])
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=max(1, min(450, 1020 - ids.shape[1])),
            do_sample=True,
            temperature=args.temperature,
            top_p=args.top_p,
            top_k=0,
        )[0, ids.shape[1] :].tolist()
        return tok.decode(out, skip_special_tokens=True).strip("\n")

    if args.chats:
        for n, turns in enumerate(CHATS[: args.count]):
            messages = []
            print(f"--- chat {n}")
            for said in turns:
                messages.append({"role": "user", "content": said})
                text = tok.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
                answer = go_on(tok(text, add_special_tokens=False).input_ids, n)
                messages.append({"role": "assistant", "content": answer})
                print(f"> {said}\n{answer}")
        return
    prompts = OPENINGS if args.openings else [""] * args.count
    for n, prompt in enumerate(prompts[: args.count]):
        print(f"--- {n}\n{prompt + '|' if prompt else ''}{go_on(tok(prompt).input_ids, n)}")


if __name__ == "__main__":
    main()
