from __future__ import annotations

from pathlib import Path

import pytest

from extproc.config_checks import describe, leaves
from extproc.config_sources import Loaded, SettingsError, load
from extproc.settings import Settings

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"


def written(folder: Path, text: str) -> Path:
    file = folder / "settings.yaml"
    file.write_text(text)
    return file


def problems(
    file: Path | None = None, environ: dict[str, str] | None = None, flags: dict[str, str] | None = None
) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(file, environ or {}, flags or {})
    return caught.value.problems


def test_without_sources_the_defaults_hold() -> None:
    assert load() == Loaded(Settings(), {})


def test_later_sources_win(tmp_path: Path) -> None:
    file = written(tmp_path, "search: {limit: 2, schemas: 2, max_limit: 20}\n")
    environ = {"TOOLSEARCH_SEARCH__LIMIT": "3", "TOOLSEARCH_SEARCH__SCHEMAS": "4", "OTHER": "x"}
    search = load(file, environ, {"search.limit": "5"}).settings.search
    assert (search.limit, search.schemas, search.max_limit) == (5, 4, 20)


def test_the_file_may_come_from_the_environment(tmp_path: Path) -> None:
    file = written(tmp_path, "search: {limit: 2}\n")
    assert load(environ={"TOOLSEARCH_CONFIG": str(file)}).settings.search.limit == 2


@pytest.mark.parametrize("text", ["", "# nothing\n", "search:\n", "{}\n"])
def test_an_empty_file_or_section_is_fine(tmp_path: Path, text: str) -> None:
    assert load(written(tmp_path, text)).settings == Settings()


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("caller.headers", "authorization, x-team", ("authorization", "x-team")),
        ("caller.headers", '["a","b"]', ("a", "b")),
        ("caller.headers", "", ()),
        ("tools.overrides", "get_*=read,drop_*=destructive", {"get_*": "read", "drop_*": "destructive"}),
        ("tools.overrides", '{"a=b": "write"}', {"a=b": "write"}),
        ("catalog.watch", "true", True),
        ("catalog.ttl", "1.5", 1.5),
        ("server.admin", "", ""),
        ("search.embedder", "none", "none"),
    ],
)
def test_text_becomes_the_type_of_the_setting(key: str, text: str, value: object) -> None:
    section, name = key.split(".")
    variable = f"TOOLSEARCH_{section}__{name}".upper()
    for loaded in (load(flags={key: text}), load(environ={variable: text})):
        assert getattr(getattr(loaded.settings, section), name) == value


def test_every_setting_can_be_given_as_text() -> None:
    for key, field in leaves():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, bool | int | float | str) and key != "caller.key":
            assert load(flags={key: str(default)}).settings == Settings(), key


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "search: {limt: 3}",
            ["search.limt: unknown setting", "did you mean search.limit?", "allowed: embedder"],
        ),
        ("serch: {limit: 3}", ["serch: unknown section", "did you mean search?"]),
        ("deadline: 3", ["deadline: unknown section", "did you mean server.deadline?"]),
        ("search: {limit: many}", ['search.limit: given "many"', "allowed: whole number, at least 1"]),
        ("search: {limit: 0}", ["search.limit: given 0", "at least 1"]),
        ("search: {limit: yes}", ["search.limit: given true"]),
        ("search: {limit: 99}", ["search.limit", "is above search.max_limit (25)"]),
        ("search: {lexical_weight: 2}", ["search.lexical_weight: given 2", "at least 0, at most 1"]),
        ("search: {fusion: best}", ['given "best"', "allowed: one of zscore, rrf"]),
        ("search: 3", ["search: given a number", "allowed: a mapping"]),
        ("server: {deadline: .inf}", ["server.deadline: given", "allowed: number"]),
        ("server: {deadline: .nan}", ["server.deadline: given"]),
        ("server: {listen: here}", ["server.listen", "HOST:PORT"]),
        ("server: {admin: 'unix:/x'}", ["server.admin", "empty switches it off"]),
        ("server: {tls_cert: /no/such}", ["server.tls_cert", "go together"]),
        ("server: {tls_client_ca: /no/such}", ["server.tls_client_ca", "needs server.tls_cert"]),
        ("server: {socket_mode: '9'}", ["server.socket_mode", "text like 0660"]),
        ("caller: {headers: authorization}", ["caller.headers", "allowed: list of texts"]),
        ("tools: {overrides: {a: red}}", ["tools.overrides", "one of read, write, destructive"]),
        ("catalog: {url: 'gateway/mcp'}", ["catalog.url", "http:// or https://"]),
        ("catalog: {store: 'memcached://x'}", ["catalog.store", "redis://"]),
        ("search: {limit: 1, limit: 2}", ["the same key twice at line 1"]),
        ("search: {limit: 1", ["not valid YAML at line"]),
        ("- search", ["has to be a mapping of sections"]),
        ("\x00", ["not valid YAML"]),
        ("profiles: 3", ["profiles: given a number"]),
        ("profiles: {a: 3}", ["profiles.a: given a number"]),
        (
            "profiles: {a: {serch: {}}}",
            ["profiles.a.serch: unknown section", "did you mean profiles.a.search?"],
        ),
        (
            "profiles: {a: {search: {limt: 1}}}",
            ["profiles.a.search.limt", "did you mean profiles.a.search.limit?"],
        ),
        ("profiles: {a: {search: {limit: x}}}", ['profiles.a.search.limit: given "x"']),
        ("profiles: {a: {search: {limit: 99}}}", ["profiles.a.search.limit", "above search.max_limit"]),
        ("profiles: {a: {server: {listen: 'x:1'}}}", ["profiles.a.server.listen", "whole process"]),
        ("profiles: {a: {telemetry: {log_level: info}}}", ["whole process"]),
        ("profiles: {a: {caller: {key: x}}}", ["profiles.a.caller.key", "whole process"]),
    ],
)
def test_a_bad_file_is_told_with_the_key_and_what_is_allowed(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    file = written(tmp_path, text)
    problem = problems(file)[0]
    for part in [*expected, str(file)]:
        assert part in problem


@pytest.mark.parametrize(
    ("variable", "part"),
    [
        ("TOOLSEARCH_SEARCH__LIMT", "did you mean search.limit?"),
        ("TOOLSEARCH_SEARCH", "unknown setting"),
        ("TOOLSEARCH_LISTEN", "did you mean server.listen?"),
        ("TOOLSEARCH_SEARCH_LIMIT", "did you mean search.limit?"),
        ("TOOLSEARCH_PROFILES", "profiles.NAME.SECTION.SETTING"),
        ("TOOLSEARCH_", "unknown section"),
    ],
)
def test_a_variable_nobody_knows_is_told(variable: str, part: str) -> None:
    (problem,) = problems(environ={variable: "1"})
    assert variable in problem
    assert part in problem


def test_a_name_like_no_other_gets_no_hint() -> None:
    (problem,) = problems(environ={"TOOLSEARCH_FOO": "1"})
    assert problem.startswith("foo: unknown section (from TOOLSEARCH_FOO); allowed: caller, ")


def test_variables_for_other_purposes_are_left_alone() -> None:
    assert load(environ={"TOOLSEARCH_MODELS": "/srv/models"}) == load()


def test_what_kubernetes_puts_beside_a_service_is_no_setting() -> None:
    links = {
        "TOOLSEARCH_PORT": "tcp://10.0.0.1:50051",
        "TOOLSEARCH_PORT_50051_TCP_ADDR": "10.0.0.1",
        "TOOLSEARCH_SERVICE_HOST": "10.0.0.1",
        "TOOLSEARCH_SERVICE_PORT_GRPC": "50051",
    }
    assert load(environ=links) == load()
    with pytest.raises(SettingsError):
        load(environ={"TOOLSEARCH_PORTS": "1"})


def test_broken_json_in_a_variable_is_told() -> None:
    assert problems(environ={"TOOLSEARCH_CALLER__HEADERS": '["a"'}) == [
        "caller.headers: not valid JSON (from TOOLSEARCH_CALLER__HEADERS)"
    ]


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xff"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "settings.yaml"
    if content is not None:
        file.write_bytes(content)
    (problem,) = problems(file)
    assert str(file) in problem


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    file = written(tmp_path, "search: {limit: x, fusion: y}\nserch: {}\n")
    assert len(problems(file, {"TOOLSEARCH_NO": "1"})) == 4


def test_values_of_the_wrong_type_do_not_hide_what_is_inconsistent(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        search: {limit: x, max_limit: 2, schemas: many}
        catalog: {url: gateway/mcp, store: 'redis://h', token_attribute: token}
        caller: {headers: [x-key]}
        server: {listen: here}
        """,
    )
    assert [problem.partition(" ")[0].rstrip(":") for problem in problems(file)] == [
        "search.limit",
        "search.schemas",
        "server.listen",
        "catalog.url",
        "catalog.token_attribute",
        "catalog.store_key",
        "caller.key",
    ]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("caller: {headers: 3}\ncatalog: {token_attribute: token}", "caller.headers"),
        ("search: {limit: 30, max_limit: x}", "search.max_limit"),
        ("server: {tls_cert: 3, tls_key: ''}", "server.tls_cert"),
        ("catalog: {store: ['redis://h']}", "catalog.store"),
        ("catalog: {store: 'redis://h', store_key: []}\ncaller: {key: k}", "catalog.store_key"),
    ],
)
def test_what_depends_on_a_wrong_value_is_not_judged(tmp_path: Path, text: str, key: str) -> None:
    (problem,) = problems(written(tmp_path, text))
    assert problem.startswith(f"{key}: given")


def test_everything_wrong_with_the_store_is_told(tmp_path: Path) -> None:
    file = written(tmp_path, "catalog: {store: 'memcached://x', store_key: short, store_timeout: 0}")
    keys = [problem.partition(" ")[0] for problem in problems(file)]
    assert keys == ["catalog.store", "catalog.store_key", "caller.key:", "catalog.store_timeout"]


@pytest.mark.parametrize("key", ["caller.headers", "catalog.headers"])
@pytest.mark.parametrize(
    ("value", "part"),
    [
        ('[""]', "entry 1 is empty"),
        ('["a", "x y"]', "entry 2 is no name"),
        ('["x:hunter2"]', "entry 1 is no"),
    ],
)
def test_headers_have_to_be_names(key: str, value: str, part: str) -> None:
    (problem,) = problems(flags={key: value})
    assert problem.startswith(f"{key} (from --{key}): ")
    assert part in problem
    assert "hunter2" not in problem


def test_json_nested_without_end_is_told() -> None:
    (problem,) = problems(flags={"tools.hide": "[" * 200_000})
    assert problem == "tools.hide: not valid JSON (from --tools.hide)"


def test_a_base_problem_is_told_once_however_many_profiles_inherit_it(tmp_path: Path) -> None:
    file = written(tmp_path, "search: {limit: 99}\nprofiles: {a: {}, b: {calls: {direct: deny}}}\n")
    assert len(problems(file)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "caller: {key: [hunter2]}",
        "catalog: {store_key: {hunter2: 1}}",
        "catalog: {store: ['redis://:hunter2@h']}",
        "catalog: {store: 'hunter2@h'}",
        "catalog: {url: 'user:hunter2@h'}",
        "caller: {kye: hunter2}",
        "key: hunter2",
        "search: {limit: {hunter2: 1}}",
        "caller: {key: 'hunter2",
        "caller:\n  key: hunter2\n hunter2: 1",
    ],
)
def test_secrets_are_never_shown(tmp_path: Path, text: str) -> None:
    assert "hunter2" not in "".join(problems(written(tmp_path, text)))


def test_a_secret_is_read_and_hidden() -> None:
    settings = load(environ={"TOOLSEARCH_CALLER__KEY": "hunter2"}).settings
    assert settings.caller.key.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(settings)


def test_profiles_are_complete_and_inherit_the_base(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        search: {limit: 2}
        tools: {hide: [a, b]}
        server: {deadline: 3}
        profiles:
          plain:
          strict: {calls: {direct: deny}, tools: {hide: [c]}, server: {deadline: 1}}
        """,
    )
    environ = {"TOOLSEARCH_PROFILES__STRICT__SEARCH__SCHEMAS": "1", "TOOLSEARCH_SEARCH__LIMIT": "4"}
    loaded = load(file, environ)
    plain, strict = loaded.profiles["plain"], loaded.profiles["strict"]
    assert plain == loaded.settings
    assert plain.search.limit == strict.search.limit == 4
    assert (strict.calls.direct, strict.tools.hide, strict.search.schemas) == ("deny", ("c",), 1)
    assert (loaded.settings.server.deadline, strict.server.deadline) == (3, 1)
    assert loaded.settings.tools.hide == ("a", "b")


def test_every_setting_is_documented_with_its_type_and_default() -> None:
    rows = {
        cells[1].strip(" `"): cells
        for line in DOCS.read_text().splitlines()
        if line.startswith("| `") and len(cells := line.split("|")) == 6
    }
    for key, field in leaves():
        assert key in rows, f"{key} is not in docs/configuration.md"
        assert rows[key][2].strip() == describe(field), key
        assert rows[key][3].strip(" `") == shown(field.get_default(call_default_factory=True)), key
    assert set(rows) == {key for key, _ in leaves()}


def shown(default: object) -> str:
    match default:
        case bool():
            return str(default).lower()
        case tuple():
            return ", ".join(default) or "none"
        case dict():
            return "none"
        case int() | float():
            return f"{default:g}" if isinstance(default, float) else str(default)
        case str():
            return default or "empty"
        case _:
            return "empty"
