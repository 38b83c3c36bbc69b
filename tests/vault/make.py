"""A vault as people keep one: notes somebody wrote (``written.md``) among hundreds that pile up. The same bytes every time.

python3 tests/vault/make.py DIR
"""

from __future__ import annotations

import json
import random
import sys
from datetime import date, timedelta
from pathlib import Path

HERE = Path(__file__).resolve().parent
QUESTIONS = HERE / "questions.jsonl"
_FIRST = date(2031, 1, 1)
_DAYS = 190

PEOPLE = (
    "Ines Calder", "Odile Marchand", "Rosa Field", "Tomas Brandt", "Pavel Orr", "Lev Anders", "Mina Sorel", "Jonas Weir",
    "Agnes Holt", "Karim Nasser", "Berta Lund", "Felix Amar", "Greta Voss", "Hugo Pell", "Irma Danek", "Jakob Rein",
    "Kaja Moen", "Luis Tello", "Nora Vance", "Otto Blum", "Petra Sand", "Ravi Menon", "Sofia Brun", "Theo Lark",
)  # fmt: skip
PLACES = ("Truing a wheel", "Chain wear", "Compressor", "Second-hand prices", "Rental fleet", "Tool library", "Torque")
DID = (
    "Fixed a flat for {who} and showed how to find the thorn.",
    "{who} came by with cake, see [[{place}]].",
    "Sorted the box of cables with {who}.",
    "Rain all day; only {who} at the stands.",
    "Sold a blue city bike, {who} wrote the receipt.",
    "{who} asked about [[{place}]], answered from the note.",
    "Two tourists needed new pads; {who} helped.",
    "Swept the yard with {who}, found the lost ten millimetre key.",
    "{who} trued a rear wheel for the first time.",
    "Long talk with {who} about gears. #talk",
    "Parcel from the post office, carried by {who}.",
    "{who} is ill, shift taken over.",
)
TALKED = ("windows", "the summer party", "a new sign", "the bicycle lane", "cleaning", "the newsletter", "stickers")
JOTS = (
    "Ask {who} about the spare saddle.",
    "Look up a song for {who}.",
    "{who}: size 42 shoes, black.",
    "Return the ladder to {who}.",
    "Postcard to {who}.",
)
TEMPLATES = {
    "Daily": "---\ndate: <% tp.date.now() %>\ntags: [daily]\n---\n# {{title}}\n\n- \n",
    "Meeting": "---\nattendees: []\ntype: meeting\n---\n# {{title}}\n\n## Decided\n",
    "Person": "---\nphone: \nrole: {{role}}\n---\n# {{title}}\n",
}


def written() -> dict[str, str]:
    """The notes that questions ask for, by path."""
    notes = {}
    for part in (HERE / "written.md").read_text(encoding="utf-8").split("@@ ")[1:]:
        path, _, text = part.partition("\n")
        notes[path] = f"---\n{text}" if "\n---\n" in text else text
    return notes


def piled_up() -> dict[str, str]:
    """What is there beside them: people, daily notes, meetings, jottings, templates, drawings."""
    notes = {}
    for number, who in enumerate(PEOPLE):
        role = ("member", "volunteer", "board")[number % 3]
        head = f"---\nrole: {role}\nphone: 555-{1000 + 37 * number}\ntags: [person/{role}]\naliases: [{who.split()[0]}]\n---\n"
        notes[f"people/{who}.md"] = f"{head}Rides a {('red', 'green', 'black', 'grey')[number % 4]} bike.\n"
    for number in range(_DAYS):
        day, chance = _FIRST + timedelta(number), random.Random(number)
        lines = [f"- {_said(said, chance)}" for said in chance.sample(DID, 2 + number % 4)]
        notes[f"daily/{day}.md"] = (
            f"---\ntags: [daily]\nmood: {1 + number % 5}\n---\n# {day:%A}\n\n" + "\n".join(lines) + "\n"
        )
    for number in range(24):
        day, chance = _FIRST + timedelta(7 * number + 3), random.Random(1000 + number)
        topic, who = TALKED[number % len(TALKED)], chance.sample(PEOPLE, 3)
        attendees = ", ".join(f'"[[{each}]]"' for each in who)
        notes[f"meetings/{day} {topic.title()}.md"] = (
            f"---\nattendees: [{attendees}]\ntype: meeting\n---\n# About {topic}\n\n{who[0]} made a proposal on {topic}, "
            f"{who[1]} was against it.\n\n## Decided\n\nWe talk about {topic} again next month; {who[2]} asks around.\n"
        )
    for number in range(40):
        chance = random.Random(2000 + number)
        notes[f"inbox/jot {number:02d}.md"] = _said(chance.choice(JOTS), chance) + "\n"
    for name, text in TEMPLATES.items():
        notes[f"templates/{name}.md"] = text
    return notes | _drawings()


def _said(said: str, chance: random.Random) -> str:
    return said.format(who=f"[[{chance.choice(PEOPLE)}]]", place=chance.choice(PLACES))


def _drawings() -> dict[str, str]:
    drawings = {}
    for number in range(6):
        chance = random.Random(3000 + number)
        shapes = [
            {
                "type": "rectangle",
                "id": f"{chance.getrandbits(64):x}",
                "x": chance.random() * 900,
                "y": chance.random() * 900,
            }
            for _ in range(40)
        ]
        drawings[f"drawings/Sketch {number}.excalidraw.md"] = (
            "---\nexcalidraw-plugin: parsed\ntags: [excalidraw]\n---\n# Excalidraw Data\n\n## Text Elements\n"
            f"stand {number} ^a{number}\n\n%%\n## Drawing\n```json\n{json.dumps({'type': 'excalidraw', 'elements': shapes})}\n```\n%%\n"
        )
    return drawings


def make_vault(folder: Path) -> int:
    """Write the vault into ``folder``; how many notes it has."""
    notes = written() | piled_up()
    settings = {".obsidian/app.json": "{}", ".obsidian/templates.json": json.dumps({"folder": "templates"})}
    for path, text in (notes | settings).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return len(notes)


if __name__ == "__main__":
    print(f"{make_vault(Path(sys.argv[1]))} notes")
