"""The plots, read from plots.txt: each a chain of beats, with what can be asked of it.

Slots that a template may use: {H} the hero, {he} {him} {his} {himself} {He} {His} {kind};
{F} and {G} two others with {F.he} {F.him} {F.his} {F.He} {F.kind}, and {F.intro} where they
come in ("a fox named Pip"); {P} a grown-up of the hero's ("his mother") with {P.he} {P.him}
{P.his}; {place} the setting ("the forest"), {at_place}, {spot1} {spot2} {spot3} places in it;
{toy} {color} {food} {foods} {flower} {day}; and what the plot's own `pick` lines draw.
"""

import pathlib

# What made the noise; how the beast's trouble is cured. Drawn as slots of their plots.
NOISES = {
    "tap, tap, tap": "a branch that tapped on the window",
    "hoo, hoo": "a baby owl that could not sleep",
    "scratch, scratch": "a tiny mouse that looked for crumbs",
    "drip, drip, drip": "the rain that came through the roof",
    "creak, creak": "the old gate in the wind",
    "bang, bang": "a window that was open",
    "sniff, sniff": "a hedgehog with a cold",
    "boo, boo": "a little cat that was cold",
    "rattle, rattle": "an old tin can in the wind",
}
TROUBLES = {
    "a sore tooth": "pulled out the bad tooth",
    "a thorn in its foot": "pulled out the thorn",
    "no friends": "asked it to play",
    "a cold": "gave it hot soup",
    "a splinter in its paw": "took out the splinter",
    "a tummy ache": "made it some tea",
    "a bad dream every night": "sang it a soft song",
}


def read_plots(path):
    """A list of dictionaries: name, topics, who, beats, morals, qa, pick."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            lines[-1] += " " + line.strip()
        elif line and not line.startswith("#"):
            lines.append(line)
    plots = []
    for line in lines:
        key, _, value = line.partition(" ")
        if key == "plot":
            plots.append(dict(name=value, topics=[], who=[], beats=[], morals=[], qa=[], pick={}))
        elif key == "pick":
            name, _, values = value.partition(" = ")
            plots[-1]["pick"][name] = values.split(" | ")
        elif key == "ask":
            plots[-1]["qa"].append(tuple(value.split(" | ")))
        else:
            field = {"topic": "topics", "who": "who", "beat": "beats", "moral": "morals"}[key]
            plots[-1][field].append(value)
    return plots


PLOTS = read_plots(pathlib.Path(__file__).with_name("plots.txt"))
for _plot in PLOTS:
    if _plot["name"] == "noise":
        _plot["pick"]["noise"] = sorted(NOISES)
    if _plot["name"] == "beast":
        _plot["pick"]["trouble"] = sorted(TROUBLES)
