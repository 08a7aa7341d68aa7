"""Ten clean tables, of which polluted files are made: names and rows of text, always the same."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

FIRST = [
    "Ann",
    "Bob",
    "Chloé",
    "Dmitri",
    "Eva",
    "Farid",
    "Greta",
    "Hugo",
    "Ines",
    "Jürgen",
    "Kofi",
    "Léa",
    "Mia",
    "Noor",
    "Oscar",
    "Pía",
]
LAST = [
    "Adams",
    "Becker",
    "Costa",
    "Dubois",
    "Eriksen",
    "Fischer",
    "García",
    "Haas",
    "Ivanov",
    "Jansen",
    "Kaya",
    "López",
]
PLACES = [
    "Berlin",
    "Lagos",
    "Lima",
    "Malmö",
    "Nantes",
    "Osaka",
    "Porto",
    "Quito",
    "Recife",
    "Sofia",
    "Turin",
    "Utrecht",
]
COUNTRIES = [
    "Germany",
    "Nigeria",
    "Peru",
    "Sweden",
    "France",
    "Japan",
    "Portugal",
    "Ecuador",
    "Brazil",
    "Bulgaria",
]
NOUNS = [
    "lamp",
    "chair",
    "desk",
    "cable",
    "kettle",
    "mirror",
    "basket",
    "carpet",
    "clock",
    "ladder",
    "shelf",
    "towel",
]


@dataclass
class Table:
    """Names and rows as a clean file has them; the columns' units, empty for texts."""

    name: str
    names: list[str]
    rows: list[list[str]]
    units: list[str]


def orders(rng: random.Random) -> Table:
    rows = []
    for number in range(1, 151):
        day = date(2024, 1, 1) + timedelta(days=rng.randrange(366))
        price = f"{rng.randrange(100, 90000) / 100:.2f}"
        status = rng.choice(["paid", "open", "shipped"])
        customer = f"{rng.choice(LAST)}, {rng.choice(FIRST)}"
        rows.append([str(number), customer, day.isoformat(), price, status])
    names = ["order_id", "customer", "placed_on", "amount", "status"]
    return Table("orders", names, rows, ["", "", "", "EUR", ""])


def people(rng: random.Random) -> Table:
    rows = []
    for _ in range(90):
        first, last = rng.choice(FIRST), rng.choice(LAST)
        email = f"{first.lower()}.{last.lower()}@example.org".encode("ascii", "ignore").decode()
        rows.append([f"{first} {last}", email, rng.choice(PLACES), rng.choice(COUNTRIES)])
    return Table("people", ["name", "email", "city", "country"], rows, ["", "", "", ""])


def weather(rng: random.Random) -> Table:
    rows = []
    for hour in range(120):
        moment = f"2024-03-{1 + hour // 24:02d} {hour % 24:02d}:00:00"
        rows.append(
            [
                moment,
                f"{rng.uniform(-5, 20):.1f}",
                f"{rng.uniform(980, 1030):.1f}",
                str(rng.randrange(20, 101)),
            ]
        )
    names = ["time", "temperature", "pressure", "humidity"]
    return Table("weather", names, rows, ["", "(C)", "(hPa)", "(%)"])


def codes(rng: random.Random) -> Table:
    rows = []
    for _ in range(100):
        code = f"{rng.randrange(100, 99999):05d}"
        phone = f"+49{rng.randrange(10**8, 10**9)}"
        rows.append([code, rng.choice(PLACES), phone, f"{rng.uniform(0, 9):.3f}"])
    return Table("codes", ["zip", "place", "phone", "share"], rows, ["", "", "", "%"])


def products(rng: random.Random) -> Table:
    rows = []
    for number in range(1000, 1110):
        noun = rng.choice(NOUNS)
        note = rng.choice(
            [f'the "{noun}" of old', f"a {noun}; cheap, and new", f"{noun}\nin two lines", noun, ""]
        )
        rows.append([str(number), noun, note, f"{rng.uniform(1, 300):.2f}"])
    return Table("products", ["sku", "product", "note", "price"], rows, ["", "", "", "EUR"])


def years(rng: random.Random) -> Table:
    rows = [[place, *(f"{rng.uniform(100, 900):.1f}" for _ in range(4))] for place in PLACES]
    rows += [[place, *(f"{rng.uniform(100, 900):.1f}" for _ in range(4))] for place in COUNTRIES]
    return Table("years", ["region", "2019", "2020", "2021", "2022"], rows, ["", *["kt"] * 4])


def sensors(rng: random.Random) -> Table:
    rows = []
    for number in range(130):
        value = "NA" if rng.random() < 0.15 else f"{rng.uniform(0, 1):.4f}"
        sensor = rng.choice(["A7", "B2", "C9", "D4"])
        rows.append([sensor, f"{number * 10}", value, rng.choice(["true", "false"])])
    return Table("sensors", ["sensor", "at", "value", "ok"], rows, ["", "s", "V", ""])


def sessions(rng: random.Random) -> Table:
    rows = []
    for _ in range(80):
        key = uuid.UUID(int=rng.getrandbits(128), version=4)
        begun = (
            f"2024-05-{rng.randrange(1, 29):02d} {rng.randrange(24):02d}:{rng.randrange(60):02d}:07"
        )
        rows.append(
            [str(key), begun, str(rng.randrange(1, 7200)), rng.choice(["web", "app", "kiosk"])]
        )
    names = ["session_id", "begun_at", "seconds", "channel"]
    return Table("sessions", names, rows, ["", "", "s", ""])


def words(rng: random.Random) -> Table:
    pairs = ["Haus maison", "Baum arbre", "Wasser eau", "Licht lumière", "Straße rue", "Brot pain"]
    pairs += ["Tür porte", "Schlüssel clé", "Bäcker boulanger", "Mädchen fille", "Hund chien"]
    rows = []
    for pair in pairs * 4:
        german, french = pair.split()
        rows.append([german, french, rng.choice(["noun", "noun, rare", "noun, common"])])
    return Table("words", ["german", "french", "kind"], rows, ["", "", ""])


def cars(rng: random.Random) -> Table:
    rows = []
    for number in range(1, 71):
        model = f"{rng.choice(LAST)} {rng.choice(('GT', 'LX', 'S3', 'V60'))}"
        cylinders = str(rng.choice([4, 6, 8]))
        rows.append(
            [
                str(number),
                model,
                f"{rng.uniform(10, 35):.1f}",
                cylinders,
                f"{rng.uniform(1, 6):.2f}",
            ]
        )
    return Table("cars", ["row", "model", "mpg", "cyl", "wt"], rows, ["", "", "mi/gal", "", "t"])


MADE: list[Callable[[random.Random], Table]] = [
    orders,
    people,
    weather,
    codes,
    products,
    years,
    sensors,
    sessions,
    words,
    cars,
]


def tables() -> list[Table]:
    """The ten tables."""
    return [make(random.Random(make.__name__)) for make in MADE]
