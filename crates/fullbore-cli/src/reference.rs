//! The generated pages of docs/reference: each is made from the code, and a test fails where the page in
//! the tree has drifted. `FULLBORE_DOCS_UPDATE=1 cargo test -p fullbore-cli --bin fullbore reference`
//! writes them.

use std::fmt::Write;
use std::path::Path;

use clap::{Command, CommandFactory};
use fullbore::json_summary::JsonSummary;
use fullbore::plan_json::JsonPlan;
use fullbore_load::job::{Job, TableJob};
use fullbore_read::StoreOptions;
use fullbore_record::Event;
use fullbore_record::diagnose::Limit;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::args::CommandLine;

/// Compares a page with the one in the tree, or writes it.
fn assert_kept(name: &str, page: &str) {
    assert_file_kept(&format!("docs/reference/{name}"), page);
}

/// The same with any file that is made from the code.
fn assert_file_kept(name: &str, page: &str) {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(name);
    if std::env::var("FULLBORE_DOCS_UPDATE").is_ok_and(|value| value == "1") {
        std::fs::write(&path, page).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "{name} has drifted: run it with FULLBORE_DOCS_UPDATE=1");
}

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// `load` is a command whose options others share.
fn describe(command: &Command, load: &Command, page: &mut String) {
    let name = command.get_display_name().unwrap_or("fullbore").replace('-', " ");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").replace(&name.replace(' ', "-"), &name);
    let _ = write!(page, "\n## {name}\n\n{about}.\n\n    {usage}\n");
    let takes_those_of_load = matches!(name.as_str(), "fullbore plan" | "fullbore preflight all");
    let is_own = |argument: &&clap::Arg| {
        let is_loads = || load.get_arguments().any(|other| other.get_id() == argument.get_id());
        argument.get_id() != "help" && !(takes_those_of_load && is_loads())
    };
    if takes_those_of_load {
        page.push_str("\nTakes the arguments and options of `fullbore load`.\n");
    }
    let mut heading = None;
    for argument in command.get_arguments().filter(is_own) {
        let its = argument.get_help_heading().unwrap_or("Arguments and options");
        if heading != Some(its) {
            let _ = write!(page, "\n| {its} | |\n|---|---|\n");
            heading = Some(its);
        }
        let help = argument.get_long_help().or_else(|| argument.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default().replace("\n\n", ". ");
        let _ = writeln!(page, "| `{}` | {} |", cell(&argument.to_string()), cell(&help));
    }
    command
        .get_subcommands()
        .filter(|command| command.get_name() != "help")
        .for_each(|command| describe(command, load, page));
}

#[test]
fn commands_and_options() {
    let mut command = CommandLine::command();
    command.build();
    let load = command.find_subcommand("load").expect("it is there");
    let mut page =
        "# Commands and options\n\nGenerated from the command's own definition.\n".to_owned();
    command
        .get_subcommands()
        .filter(|command| command.get_name() != "help")
        .for_each(|command| describe(command, load, &mut page));
    assert_kept("commands.md", &page);
}

/// The JSON Schema of a type, without references.
fn schema<T: JsonSchema>(is_read: bool) -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let settings = if is_read { settings } else { settings.for_serialize() };
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// What a value can be, in words.
fn type_words(schema: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(only) = schema.get("const") {
        return format!("`{}`", text(only));
    }
    if let Some(names) = schema.get("enum").and_then(Value::as_array) {
        let names =
            names.iter().filter(|name| !name.is_null()).map(|name| format!("`{}`", text(name)));
        return names.collect::<Vec<_>>().join(", ");
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(choices) = schema.get(key).and_then(Value::as_array) {
            let mut words: Vec<String> = choices.iter().map(type_words).collect();
            words.retain(|words| words != "null");
            words.dedup();
            return words.join(", ");
        }
    }
    match schema.get("type") {
        Some(Value::Array(names)) => {
            let names = names.iter().map(text).filter(|name| name != "null");
            names.map(|name| type_name(&name, schema)).collect::<Vec<_>>().join(" or ")
        }
        Some(name) => type_name(&text(name), schema),
        None => "any".into(),
    }
}

fn type_name(name: &str, schema: &Value) -> String {
    match (name, schema.get("items")) {
        ("array", Some(items)) => format!("list of {}", type_words(items)),
        (name, _) => name.to_owned(),
    }
}

/// The object behind a schema: itself, what it may be, or the elements of a list.
fn object_of(schema: &Value) -> Option<(&Value, &'static str)> {
    if schema.get("properties").is_some() {
        return Some((schema, ""));
    }
    if let Some(items) = schema.get("items") {
        return object_of(items).map(|(object, _)| (object, "[]"));
    }
    let choices = schema.get("anyOf")?.as_array()?;
    choices.iter().find_map(object_of)
}

/// A row for each key of an object, and of the objects in it where these are wanted.
fn rows(schema: &Value, prefix: &str, is_deep: bool, page: &mut String) {
    let Some(keys) = schema.get("properties").and_then(Value::as_object) else { return };
    for (key, value) in keys {
        let about = value.get("description").and_then(Value::as_str).unwrap_or_default();
        let _ =
            writeln!(page, "| `{prefix}{key}` | {} | {} |", cell(&type_words(value)), cell(about));
        if let Some((object, list)) = object_of(value).filter(|_| is_deep) {
            rows(object, &format!("{prefix}{key}{list}."), true, page);
        }
    }
}

const HEAD: &str = "\n| key | type | meaning |\n|---|---|---|\n";

fn keys<T: JsonSchema>(is_read: bool) -> String {
    let schema = schema::<T>(is_read);
    let mut page = HEAD.to_owned();
    rows(&schema, "", true, &mut page);
    // Keys of a flattened part stand in a list of alternatives.
    let parts = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(*key)?.as_array());
    parts.flatten().for_each(|part| rows(part, "", true, &mut page));
    page
}

#[test]
fn job_file() {
    let mut page = "# Keys of a job file\n\nGenerated from the code. How to use a job file: \
                    [guide](../guides/job-file.md). Editors that check TOML against a JSON Schema can \
                    use [job.schema.json](job.schema.json).\n\n## The whole job\n"
        .to_owned();
    let job = schema::<Job>(true);
    let mut all = HEAD.to_owned();
    rows(&job, "", false, &mut all);
    page.extend(
        all.lines()
            .filter(|line| !line.starts_with("| `table`") && !line.starts_with("| `store`"))
            .map(|line| format!("{line}\n")),
    );
    page.push_str(
        "\n## `[store]`\n\nHow object stores are reached ([guide](../guides/object-stores.md)).\n",
    );
    page.push_str(&keys::<StoreOptions>(true));
    page.push_str("\n## `[[table]]`\n");
    page.push_str(&keys::<TableJob>(true));
    assert_kept("job-file.md", &page);
    let text = serde_json::to_string_pretty(&job).expect("plain data becomes JSON");
    assert_kept("job.schema.json", &format!("{text}\n"));
}

/// What Python calls the type of an option.
fn python_type(schema: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let literals = |names: Vec<String>| format!("Literal[{}]", names.join(", "));
    let quoted = |value: &Value| format!("\"{}\"", text(value));
    if let Some(names) = schema.get("enum").and_then(Value::as_array) {
        return literals(names.iter().filter(|name| !name.is_null()).map(quoted).collect());
    }
    for key in ["oneOf", "anyOf"] {
        let Some(choices) = schema.get(key).and_then(Value::as_array) else { continue };
        let constants: Vec<_> = choices.iter().filter_map(|choice| choice.get("const")).collect();
        if constants.len() == choices.len() {
            return literals(constants.into_iter().map(quoted).collect());
        }
        let mut types: Vec<String> = choices.iter().map(python_type).collect();
        types.retain(|name| name != "None");
        types.dedup();
        return types.join(" | ");
    }
    let of_name = |name: &str| match name {
        "boolean" => "bool".to_owned(),
        "integer" => "int".to_owned(),
        "string" => "str".to_owned(),
        "null" => "None".to_owned(),
        "array" => {
            format!("Sequence[{}]", schema.get("items").map_or("str".into(), python_type))
        }
        "object" => match schema.get("additionalProperties").filter(|kind| kind.is_object()) {
            Some(kind) => format!("Mapping[str, {}]", python_type(kind)),
            None => "Mapping[str, str | bool]".to_owned(),
        },
        other => panic!("no option is of type {other}"),
    };
    match schema.get("type") {
        Some(Value::Array(names)) => {
            let names = names.iter().map(text).filter(|name| name != "null");
            names.map(|name| of_name(&name)).collect::<Vec<_>>().join(" | ")
        }
        Some(name) => of_name(&text(name)),
        None => panic!("an option without a type"),
    }
}

#[test]
fn options_of_python() {
    let mut page =
        "\"\"\"Options of a load: the keys of a job file. Generated from the code.\"\"\"\n\n\
        from __future__ import annotations\n\n\
        from collections.abc import Mapping, Sequence\n\
        from os import PathLike\n\
        from typing import Literal, TypedDict\n\n\n\
        class Options(TypedDict, total=False):\n    \"\"\"Options of a load.\"\"\"\n\n    \
        # Ceilings to compare with: a file that `fullbore preflight` wrote.\n    \
        ceilings: str | PathLike[str]\n    \
        # Directory for rejected rows. Default: the current one.\n    \
        reject_dir: str | PathLike[str]\n    \
        # Resume the unfinished run of this job.\n    resume: bool\n    \
        # Changes to a job file, each `key=value`.\n    \
        set: Sequence[str]\n"
            .to_owned();
    let mut options = std::collections::BTreeMap::new();
    for schema in [schema::<Job>(true), schema::<TableJob>(true)] {
        let keys = schema["properties"].as_object().expect("a job is an object").clone();
        options.extend(keys);
    }
    for (name, schema) in &options {
        // These are parameters of their own.
        if ["name", "sources", "table", "to"].contains(&name.as_str()) {
            continue;
        }
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let mut line = "    #".to_owned();
        for word in about.split_whitespace() {
            if line.len() + 1 + word.len() > 100 {
                let _ = writeln!(page, "{line}");
                line = "    #".to_owned();
            }
            let _ = write!(line, " {word}");
        }
        let _ = writeln!(page, "{line}");
        let mut kind = python_type(schema);
        if name == "types" {
            kind.push_str(" | Mapping[str, str]");
        }
        let line = format!("    {name}: {kind}\n");
        match line.len() <= 101 {
            true => page.push_str(&line),
            false => {
                let names = kind.trim_start_matches("Literal[").trim_end_matches(']');
                let _ = writeln!(page, "    {name}: Literal[\n        {names}\n    ]");
            }
        }
    }
    assert_file_kept("python/fullbore/_options.py", &page);
}

#[test]
fn json() {
    let mut page =
        "# JSON output\n\nGenerated from the code. Times are in seconds, sizes in bytes. A \
                    key that may be absent or null says so by its meaning.\n"
            .to_owned();
    page.push_str("\n## `fullbore plan --json`\n");
    page.push_str(&keys::<JsonPlan>(false));
    page.push_str("\n## `fullbore load --json`\n");
    page.push_str(&keys::<JsonSummary<'_>>(false));
    page.push_str(
        "\n## Run record\n\nOne event a line; `event` names it, `at` is its time since the run began. `fullbore runs show ID \
         --json` prints the record.\n",
    );
    let events = schema::<Event>(false);
    for event in events["oneOf"].as_array().expect("events are alternatives") {
        let name = event["properties"]["event"]["const"].as_str().expect("each has a name");
        let about = event.get("description").and_then(Value::as_str).unwrap_or_default();
        let _ = write!(page, "\n### `{name}`\n\n{}\n", cell(about));
        let mut table = HEAD.to_owned();
        rows(event, "", false, &mut table);
        page.extend(
            table
                .lines()
                .filter(|line| !line.starts_with("| `event` "))
                .map(|line| format!("{line}\n")),
        );
    }
    assert_kept("json.md", &page);
}

#[test]
fn verdicts() {
    let mut page =
        "# Verdict identifiers\n\nGenerated from the code. `verdict.limit` in JSON is one of \
                    these; what to do about each is in the [guide](../guides/verdict.md).\n\n\
                    | identifier | in words | meaning |\n|---|---|---|\n"
            .to_owned();
    let schema = schema::<Limit>(false);
    for choice in schema["oneOf"].as_array().expect("limits are alternatives") {
        let name = choice["const"].as_str().expect("each has a name");
        let limit: Limit = serde_json::from_value(choice["const"].clone()).expect("it is one");
        let about = choice.get("description").and_then(Value::as_str).unwrap_or_default();
        let _ = writeln!(page, "| `{name}` | {} | {} |", limit.words(), cell(about));
    }
    assert_kept("verdicts.md", &page);
}
