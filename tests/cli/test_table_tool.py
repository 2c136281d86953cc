"""`fairbandit table`."""

from tests.environments.data import people, write


def test_a_table_is_shown_as_it_will_be(command, tmp_path):
    table = people()
    table["age"][3] = ""
    table["[red]"] = ["x", "y"] * 200
    write(tmp_path / "people.csv", table)
    code, out, err = command("table", "people.csv", "group=group", "reward=wage")
    assert (code, err) == (0, "")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
    assert ["age", "number", "1", "1"] in rows
    assert ["town", "category: north, south", "2", "0"] in rows
    assert ["[red]", "category: x, y", "2", "0"] in rows
    assert ["group", "the group: a, b, c", "3", "0"] in rows
    assert ["", "all together, d", "10", ""] in rows
    assert ["id", "neither numbers nor texts that recur"] in rows
    wages = [
        wage for wage, group in zip(table["wage"], table["group"], strict=True) if group == "a"
    ]
    (own,) = [row for row in rows if row[:1] == ["a"]]
    assert own[1:3] == [str(len(wages)), f"{sum(wages) / len(wages):.4g}"]
    assert "1 missing cells are an error; set missing=drop or missing=mean" in out
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]
    several = command("table", "people.csv", "group=group,town", "reward=wage")
    assert "no column 'group,town' (did you mean [group,town]?)" in several[2]


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
