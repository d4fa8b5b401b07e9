//! `docs/cli.md` shows the program's actual output.
//!
//! Its TOML files are there for the commands, each under the name that its first line says.
//!
//! Run with `BLESS=1` to write what it prints into the document.

use std::path::Path;
use std::process::Command;

/// Runs a line of the document as a reader would; standard error is seen, too.
fn shown(line: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_callweave"));
    let mut folders = vec![program.parent().expect("the program is in a folder").to_path_buf()];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let output = Command::new("sh")
        .args(["-c", &format!("{{ {line}\n}} 2>&1")])
        .env("PATH", std::env::join_paths(folders).expect("the folders have plain names"))
        .env("NO_COLOR", "1")
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .expect("there is a shell");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" }
}

/// The document with the output of every command in its `console` blocks.
fn filled(document: &str) -> String {
    let mut out = String::new();
    let mut is_console = false;
    for line in document.lines() {
        if line.starts_with("```") {
            is_console = line == "```console";
        } else if is_console {
            let Some(command) = line.strip_prefix("$ ") else { continue };
            out += &format!("{line}\n{}", shown(command));
            continue;
        }
        out += &format!("{line}\n");
    }
    out
}

/// Writes the TOML files that the document shows.
fn write_files(document: &str) {
    for block in document.split("```toml\n").skip(1) {
        let content = block.split("```").next().expect("a split has a first part");
        let name =
            content.lines().next().and_then(|line| line.strip_prefix("# ")).expect("the name of the file");
        crate::file(name, content);
    }
}

#[test]
fn the_document_shows_what_the_program_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let document = std::fs::read_to_string(&path).expect("the document is there");
    write_files(&document);
    let filled = filled(&document);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, filled).expect("the document can be written");
        return;
    }
    for (number, (is, should)) in document.lines().zip(filled.lines()).enumerate() {
        assert_eq!(is, should, "docs/cli.md, line {}; run with BLESS=1 to renew it", number + 1);
    }
    assert_eq!(document.lines().count(), filled.lines().count());
}
