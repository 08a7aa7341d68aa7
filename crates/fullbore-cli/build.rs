//! Puts the sources of the server's extension into the command, which builds them for whatever
//! server it is told to (`fullbore extension install`).

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let crate_dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where"));
    let extension = crate_dir.join("../../extension");
    let mut files = vec![PathBuf::from("Makefile")];
    files.extend(named(&extension, "", &["control", "sql"]));
    files.extend(named(&extension, "src", &["c", "h"]));
    let mut list = String::from("[\n");
    for file in files {
        let path = extension.join(&file);
        println!("cargo::rerun-if-changed={}", path.display());
        writeln!(list, "    ({:?}, include_bytes!({:?})),", file, path).expect("to a string");
    }
    list.push_str("]\n");
    println!("cargo::rerun-if-changed={}", extension.join("src").display());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where"));
    fs::write(out.join("extension_sources.rs"), list).expect("the list can be written");
}

/// The files of a folder with one of these endings, relative to the extension's folder.
fn named(extension: &Path, folder: &str, endings: &[&str]) -> Vec<PathBuf> {
    let entries = fs::read_dir(extension.join(folder)).expect("the extension is in the checkout");
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| Path::new(folder).join(entry.file_name()))
        .filter(|path| {
            path.extension().is_some_and(|ending| endings.iter().any(|known| ending == *known))
        })
        .collect();
    found.sort();
    found
}
