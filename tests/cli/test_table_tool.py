"""`fairbandit table`."""

import pytest

from fairbandit import FairbanditError
from fairbandit.environments import Table, contents
from tests.environments.data import people, write


def test_a_table_is_shown_as_it_will_be(command, tmp_path, caplog):
    table = people()
    table["age"][3] = ""
    table["[red]"] = ["x", "y"] * 200
    write(tmp_path / "people.csv", table)
    words = ("table", "people.csv", "group=group", "reward=wage")
    assert "1 of 400 rows lack a feature; environment.missing=drop leaves" in command(*words)[2]
    code, out, _ = command(*words, "environment.missing=mean")
    assert code == 0
    assert "environment.missing=mean concerns 1 of 400 rows; missing are 1 of 'age'" in caplog.text
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
    assert ["age", "number", "1", "1"] in rows
    assert ["town", "category: north, south", "2", "0"] in rows
    assert ["[red]", "category: x, y", "2", "0"] in rows
    assert ["group", "the group: a, b, c", "3", "0"] in rows
    assert ["id", "left out: neither numbers nor texts that recur", "0", "0"] in rows
    assert "people.csv: 400 rows, 10 features" in out
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]
    several = ["group=[group,town]", "exclude=[group]", "missing=mean"]
    own = command(*words[:2], *words[3:], *several)[1]
    assert "category: north, south" in own
    assert "the group: " not in own
    assert "The group is not a feature" in own
    several = command("table", "people.csv", "group=group,town", "reward=wage")
    assert "no column 'group,town' (did you mean [group,town]?)" in several[2]
    assert "(did you mean 'people.csv'?)" in command("table", "peple.csv", "group=g", "reward=r")[2]


def test_what_the_messages_say_to_type_works(command, tmp_path):
    rows = [f"{'ab'[row % 2]};{row},5;{row * row % 7}" for row in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(["g;h;r", *rows]) + "\n")
    words = ["table", "t.csv", "group=g", "reward=r"]
    for key, value in (("environment.separator", ";"), ("environment.decimal", ",")):
        code, _, err = command(*words)
        assert code == 1
        assert f"{key.removeprefix('environment.')}=" in err
        words.append(f'{key}="{value}"')
    code, out, _ = command(*words, "group_feature=false")
    assert code == 0
    assert "The group is not a feature" in out


def test_python_says_what_the_command_prints(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "people.csv", people())
    features, groups = contents("people.csv", group="group", reward="wage", products="all")
    _, out, _ = command("table", "people.csv", "group=group", "reward=wage", "products=all")
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
    for row in features.itertuples(index=False):
        assert [*map(str, row)] in cells
    for label, row in groups.iterrows():
        assert [label, str(int(row["n"])), f"{row['mean']:.4g}", f"{row['std']:.4g}"] in cells
    world = Table(path="people.csv", group="group", reward="wage", products="all")
    assert features["features"].sum() == world.features
    assert groups["n"].sum() == len(world.members.rewards)
    with pytest.raises(FairbanditError) as refused:
        contents("people.csv", group="groop", reward="wage")
    assert str(refused.value) in command("table", "people.csv", "group=groop", "reward=wage")[2]
