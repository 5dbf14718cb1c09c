"""The things that stories are about: who, where, what."""

GIRLS = """Mia Lily Anna Sara Emma Ella Zoe Lucy Ruby Nora Ivy Rosa Maya Clara Alice Daisy Eva
Hana Amina Leila Priya Yuki Ines Freya Greta Olga Tara Wren Poppy Hazel Molly Sophie Grace Kate
Jane Jenny Amy Sue Lena Nina Rosie Bella Chloe Dora Edith Flora Gemma Holly Iris June Kira Lola
Mary Nell Opal Penny Ruth Stella Tess Una Vera Willa Zara Lin Mei Sofia Luna Asha Kaya""".split()
BOYS = """Tom Ben Sam Max Leo Jack Tim Finn Oscar Hugo Theo Noah Omar Ravi Kenji Luca Mateo Ivan
Erik Otto Felix Jamal Kofi Diego Pablo Arlo Toby Billy Bobby Charlie Danny Eddie Fred George
Harry Jim Joe John Karl Liam Mark Nick Owen Paul Peter Ralph Rob Simon Ted Victor Will Adam Alex
Dan David Ali Amir Yusuf Chen Bao Milo Jonas Emil Anton Gus Walt Henry Louis Oliver Arthur""".split()
PETS = """Pip Dot Coco Bramble Biscuit Nibbles Rusty Smoky Pepper Ginger Snowy Patch Spot Fluffy
Whiskers Mittens Pebble Acorn Maple Clover Thistle Fern Bubbles Sunny Misty Dusty Button Pickle
Waffle Muffin Honey Cinnamon Nutmeg Olive Basil Sage Tango Ziggy Bingo Dash Flash Scout Chip
Hoot Squeak Puff Tuft Twig Moss Pogo Bobo Kiko Momo Lulu Tiki Zuzu Nilo Fizz Jolly Duke Rex Teddy
Poppet Sprout Tulip Comet Marble Domino Echo Sky River Ash Blue Berry Plum Peaches Cricket""".split()
_SYLLABLES = """ba be bi bo ca co da do fa fi ga go ja jo ka ki la le li lo lu ma mi mo na ne ni
no pa pe pi po ra ri ro sa si so ta ti to va vi wa ya zo za fli gru bre tri plo""".split()
_ENDINGS = ["", "n", "r", "l", "s", "x", "k", "m", "by", "ly", "ny", "ton", "dle"]


def made_up_name(rng):
    """A name that no list holds: it makes the model copy names instead of knowing them."""
    name = "".join(rng.choice(_SYLLABLES) for _ in range(2)) + rng.choice(_ENDINGS)
    return name.capitalize()


# kind, home, settings where it is at home
ANIMALS = {
    "fox": "a cosy den",
    "rabbit": "a warm burrow",
    "bear": "a big cave",
    "mouse": "a tiny hole",
    "owl": "a hollow tree",
    "squirrel": "a tall oak tree",
    "hedgehog": "a pile of leaves",
    "deer": "a quiet glade",
    "badger": "a deep burrow",
    "beaver": "a house of sticks",
    "frog": "a green pond",
    "duck": "a nest in the reeds",
    "turtle": "a hut by the river",
    "cat": "a little house",
    "kitten": "a soft basket",
    "dog": "a red kennel",
    "puppy": "a red kennel",
    "hen": "a wooden coop",
    "chick": "a wooden coop",
    "pig": "a muddy pen",
    "piglet": "a muddy pen",
    "cow": "a big barn",
    "calf": "a big barn",
    "horse": "a stable",
    "pony": "a stable",
    "donkey": "an old barn",
    "goat": "a stone hut",
    "sheep": "a green field",
    "lamb": "a green field",
    "goose": "a nest by the pond",
    "wolf": "a rocky den",
    "lion": "a rocky cave",
    "tiger": "a shady cave",
    "elephant": "a wide valley",
    "monkey": "a tall tree",
    "giraffe": "a sunny valley",
    "zebra": "a sunny valley",
    "hippo": "a muddy river",
    "crocodile": "a muddy river",
    "parrot": "a tall palm tree",
    "penguin": "an ice cave",
    "seal": "an ice cave",
    "whale": "the deep blue sea",
    "dolphin": "the deep blue sea",
    "fish": "a clear pool",
    "octopus": "a rocky reef",
    "crab": "a small cave by the sea",
    "snail": "a curly shell",
    "bee": "a golden hive",
    "ant": "a busy anthill",
    "butterfly": "a flower garden",
    "ladybug": "a rose bush",
    "spider": "a corner of the attic",
    "caterpillar": "a green leaf",
    "bird": "a nest in a tree",
    "robin": "a nest in a tree",
    "crow": "a tall pine tree",
    "swan": "a quiet lake",
    "kangaroo": "a dry valley",
    "koala": "a gum tree",
    "panda": "a bamboo forest",
    "camel": "a sandy desert",
    "mole": "a dark tunnel",
    "otter": "a hole in the river bank",
    "raccoon": "a hollow log",
    "bat": "a dark cave",
    "lizard": "a crack in the wall",
    "snake": "a hole under a rock",
    "chipmunk": "a hollow log",
}
FANTASY = {
    "dragon": "a cave in the mountains",
    "unicorn": "a silver forest",
    "fairy": "a flower",
    "giant": "a castle on a hill",
    "robot": "a busy workshop",
    "wizard": "a crooked tower",
    "witch": "a hut in the woods",
    "knight": "a stone castle",
    "pirate": "a wooden ship",
    "princess": "a tall castle",
    "prince": "a tall castle",
    "king": "a golden palace",
    "queen": "a golden palace",
    "elf": "a mushroom house",
    "troll": "a cave under a bridge",
    "gnome": "a garden shed",
    "mermaid": "a shell palace",
    "monster": "a dark cave",
    "ghost": "an old house",
    "snowman": "a snowy garden",
    "alien": "a round spaceship",
}
PEOPLE = {
    "farmer": "a small farm",
    "baker": "a house above the bakery",
    "fisherman": "a hut by the sea",
    "sailor": "a small boat",
    "painter": "a bright attic",
    "teacher": "a house by the school",
    "gardener": "a cottage with a garden",
    "shepherd": "a hut on a hill",
    "toymaker": "a house full of toys",
    "miller": "an old mill",
    "tailor": "a narrow house",
    "clockmaker": "a house full of clocks",
    "doctor": "a white house",
}
SHE_KINDS = {"princess", "queen", "witch", "mermaid", "hen", "cow", "fairy"}
HE_KINDS = {"prince", "king", "wizard", "fisherman", "snowman", "knight"}

# setting: how it is named, and places in it that something can be lost at or found
SETTINGS = {
    "forest": [
        "behind the old oak tree",
        "beside the little stream",
        "under a thick bush",
        "near a big grey rock",
        "at the foot of a pine tree",
        "inside a hollow log",
        "among the ferns",
        "on a bed of moss",
        "by the mushroom ring",
    ],
    "farm": [
        "behind the barn",
        "under the hay",
        "beside the duck pond",
        "near the old gate",
        "in the vegetable patch",
        "next to the well",
        "behind the tractor",
        "under the apple tree",
        "by the hen house",
    ],
    "village": [
        "behind the bakery",
        "by the old bridge",
        "in the market square",
        "near the well",
        "under a wooden bench",
        "beside the school",
        "next to the fountain",
        "at the end of the lane",
        "outside the toy shop",
    ],
    "town": [
        "in the park",
        "behind the library",
        "near the bus stop",
        "under a bench",
        "by the fountain",
        "outside the bakery",
        "next to the swings",
        "beside the train station",
        "on the steps of the museum",
    ],
    "seaside": [
        "behind the sand dunes",
        "under an old boat",
        "beside a rock pool",
        "near the lighthouse",
        "at the end of the pier",
        "in a heap of seaweed",
        "inside a small cave",
        "by the fishing nets",
        "among the shells",
    ],
    "mountains": [
        "behind a tall rock",
        "beside the waterfall",
        "under a pine tree",
        "near the mountain path",
        "inside a small cave",
        "by the old stone hut",
        "on a grassy ledge",
        "next to the goat track",
        "among the wild flowers",
    ],
    "meadow": [
        "behind the hedge",
        "beside the brook",
        "under a daisy",
        "near the old fence",
        "in the tall grass",
        "by the willow tree",
        "among the poppies",
        "next to a molehill",
        "beside the wooden gate",
    ],
    "garden": [
        "behind the shed",
        "under the rose bush",
        "beside the pond",
        "near the fence",
        "in a flower pot",
        "by the apple tree",
        "under a cabbage leaf",
        "next to the watering can",
        "among the beans",
    ],
}
SETTING_NAMES = {
    "forest": "[a|the] [quiet|green|deep|big|shady] [forest|wood]",
    "farm": "a [small|busy|sunny|big] farm",
    "seaside": "a [small|windy|sunny] town by the sea",
    "village": "a [small|quiet|little|pretty] village",
    "town": "a [busy|small|big|noisy] town",
    "mountains": "the [high|snowy|tall|blue] mountains",
    "meadow": "a [wide|green|sunny] meadow",
    "garden": "a [big|lovely|wild|sunny] garden",
}
SETTING_THE = {
    "forest": "the forest",
    "farm": "the farm",
    "seaside": "the beach",
    "village": "the village",
    "town": "the town",
    "mountains": "the mountain",
    "meadow": "the meadow",
    "garden": "the garden",
}
SETTING_OF = {
    "fox rabbit bear owl squirrel hedgehog deer badger wolf raccoon elf unicorn witch chipmunk troll monster": [
        "forest"
    ],
    "hen chick pig piglet cow calf horse pony donkey sheep lamb goose farmer": ["farm"],
    "whale dolphin seal penguin crab octopus fisherman sailor pirate mermaid": ["seaside"],
    "goat dragon giant shepherd": ["mountains"],
    "snail bee ladybug caterpillar butterfly gnome ant gardener spider snowman": ["garden"],
    "baker painter teacher toymaker tailor clockmaker doctor robot miller": ["village", "town"],
    "princess prince king queen knight wizard": ["village", "forest", "mountains"],
    "frog duck turtle mouse mole otter beaver swan": ["meadow", "forest"],
    "cat kitten dog puppy ghost alien": ["village", "town", "garden", "farm"],
}

ADJECTIVES = """little small young kind brave clever shy cheerful curious gentle happy quiet funny
lazy proud careful friendly busy playful silly sleepy hungry lonely patient polite merry
good tiny""".split()
COLORS = "red blue green yellow orange purple pink white brown silver golden black grey".split()
TOYS = """ball kite doll drum whistle top boat train car bear hat scarf bell ring book bag cup
button mitten umbrella lantern key spoon necklace blanket basket ribbon marble puzzle horn flute
hoop bucket balloon shell feather coin map boot sock watch crown""".split()
FOODS = """apple pear berry carrot cookie cake pie bun pancake plum cherry nut peach muffin
sandwich melon""".split()
FOOD_PLURALS = """apples pears berries carrots cookies cakes pies buns pancakes plums cherries nuts
peaches muffins sandwiches strawberries grapes""".split()
FLOWERS = "rose tulip daisy sunflower lily poppy violet daffodil".split()
LIKES = [
    "[read|look at] [books|picture books]",
    "[sing|sing songs]",
    "dance",
    "paint pictures",
    "play hide and seek",
    "collect shiny stones",
    "look at the stars",
    "climb trees",
    "jump in puddles",
    "tell jokes",
    "bake cakes",
    "help others",
    "splash in the water",
    "build things",
    "listen to stories",
    "chase butterflies",
    "count the clouds",
    "take long walks",
    "nap in the sun",
    "explore new places",
    "eat {foods}",
    "plant flowers",
    "make new friends",
    "ask questions",
    "roll down hills",
    "draw with chalk",
    "play the drum",
    "watch the rain",
    "swing in the garden",
]
WEATHER = [
    "the sun was [shining|bright|warm]",
    "the sky was [blue|clear]",
    "a soft wind was blowing",
    "the birds were singing",
    "it was a [sunny|warm|fine] day",
    "white clouds [sailed|drifted] across the sky",
    "the air smelled of [flowers|grass]",
    "the leaves were [dancing|rustling] in the wind",
    "it was a little [cold|windy]",
]
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()

# Words that only colour an opening: the plots do not know them, as they will not know
# what a reader writes.
ODD_NOUNS = """umbrella ladder violin teapot volcano cactus pillow bicycle mountain helicopter
trumpet chocolate mirror sandwich window carpet piano rocket island cheese pencil camera cloud
mushroom fountain tower guitar penguin robot lemon dinosaur candle windmill blanket suitcase
telescope jungle spaceship rainbow tunnel museum circus elevator giant library banana parade
lighthouse hammer submarine volcano waterfall donut snowball castle zebra engine cabbage""".split()
ODD_VERBS = """snore sneeze hop whistle giggle sleep sing count fly dream cook read yawn dance swim
paint climb draw laugh run jump write build dig wave hum skip""".split()
ODD_ADJECTIVES = """purple enormous invisible noisy ancient sticky golden tiny wobbly fluffy
square sleepy crooked spotted silver grumpy shiny wooden frozen gigantic striped magical broken
round upside-down musical secret dusty lucky slow quick warm cold soft loud""".split()
JOBS = """pilot doctor baker teacher sailor painter singer dancer king queen firefighter farmer
detective inventor astronaut gardener cook clown knight scientist""".split()
