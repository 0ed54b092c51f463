//! `quietus-man DIR`: writes the manual pages, a page for each command.
//!
//! The pages are made when Quietus is installed, so that the program need not carry the generator.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(dir) = std::env::args_os().nth(1) else {
        eprintln!("usage: quietus-man DIR");
        return ExitCode::from(2);
    };
    match write(Path::new(&dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quietus-man: cannot write the manual pages to {}: {error}", dir.display());
            ExitCode::FAILURE
        }
    }
}

fn write(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(quietus::cli::command(), dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_that_names_its_options() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = dir.path().join("man1");
        write(&at).expect("the pages are written");
        let page = |name: &str| std::fs::read_to_string(at.join(name)).expect(name);
        assert!(page("quietus.1").contains("quietus"));
        for command in quietus::cli::command().get_subcommands() {
            let text = page(&format!("quietus-{}.1", command.get_name()));
            for option in command.get_arguments().filter_map(|it| it.get_long()) {
                let option = option.replace('-', "\\-");
                assert!(text.contains(&option), "{}: {option}", command.get_name());
            }
        }
    }
}
