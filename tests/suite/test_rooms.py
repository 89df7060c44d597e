"""The drawing of the rooms in CONTRIBUTING is true."""

import importlib
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def drawing():
    spec = importlib.util.spec_from_file_location("drawRooms", ROOT / "docs" / "drawRooms.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ROOMS = drawing()


def names(room: str) -> str:
    return "\n".join(path.read_text() for path in (ROOT / "sgmcmc" / room).rglob("*.py"))


@pytest.mark.parametrize("one", ROOMS.HANDOVERS, ids=lambda one: f"{one.giver} to {one.taker}")
def test_a_room_hands_the_record_to_the_other(one):
    record = getattr(importlib.import_module(f"sgmcmc.{one.module}"), one.record)
    assert record.__module__ == f"sgmcmc.{one.module}"
    assert {one.giver, one.taker} & {one.module.split(".")[0]}
    (other,) = {one.giver, one.taker} - {one.module.split(".")[0]}
    uses = f"from sgmcmc.{one.module} import" if one.record != "Storage" else "def append"  # a protocol
    assert uses in names(other)


def test_the_picture_has_all_rooms_and_records():
    picture = ROOMS.PICTURE.read_text()
    assert [name for name in ROOMS.ROOMS if f">{name}/<" not in picture] == []
    assert [one for one in ROOMS.HANDOVERS if f">{one.label or one.record}<" not in picture] == []
    assert [name for name in ROOMS.ROOMS if not (ROOT / "sgmcmc" / name).is_dir()] == []
