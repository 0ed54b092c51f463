use super::*;
use clap::CommandFactory;

#[test]
fn the_command_line_makes_sense() {
    Cli::command().debug_assert();
}

/// Every command that does something itself, with the words that lead to it.
fn leaves(command: &clap::Command, before: &str) -> Vec<(String, clap::Command)> {
    let name = format!("{before}{}", command.get_name());
    let below: Vec<_> = command.get_subcommands().filter(|it| it.get_name() != "help").collect();
    match below.is_empty() {
        true => vec![(name, command.clone())],
        false => below.into_iter().flat_map(|it| leaves(it, &format!("{name} "))).collect(),
    }
}

#[test]
fn every_help_has_an_example_that_is_understood() {
    let mut cli = Cli::command();
    cli.build();
    for (name, mut command) in leaves(&cli, "") {
        // The commands for keys share a page with the disk's.
        if name.starts_with("quietus key ") {
            continue;
        }
        let help = command.render_help().to_string();
        let (_, after) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{name} has no example"));
        let example = after.lines().next().expect("an example").trim();
        let words = example.split_once(" | ").map_or(example, |(_, last)| last);
        let words = words.split(['>', '|']).next().expect("words").replace('\'', "");
        assert!(words.trim().starts_with(&name), "{name}: {example}");
        let parsed = Cli::try_parse_from(words.split_whitespace());
        assert!(parsed.is_ok(), "{example}: {parsed:?}");
    }
}

/// The headings of groups of options, and the options that belong below each.
const HEADINGS: &[(&str, &str)] = &[
    ("With --store versions", "seal epoch retention stub_medium"),
    ("With --store sealed or versions", "root no_credential"),
    ("Keys (default: ask for a passphrase)", "passphrase_file key_file key_command"),
    ("New credential (default: ask for a passphrase)", "new_passphrase_file new_key_file new_key_command"),
    ("TLS", "tls_cert tls_key tls_client_ca tls_optional"),
    ("Limits", "connections handshake_timeout stall_timeout idle_timeout memory"),
    (
        "What is inferred",
        "detect grade sensitive eager trust_discard reorder_window settle attached cache_hold",
    ),
];

#[test]
fn options_stand_under_the_heading_of_their_kind() {
    let mut cli = Cli::command();
    cli.build();
    for (name, command) in leaves(&cli, "") {
        for option in command.get_arguments().filter(|it| it.get_long().is_some()) {
            let id = option.get_id().as_str();
            // An option has a heading of its own where it has a special meaning.
            let is_special = |heading: &str| match heading {
                "With --store versions" | "With --store sealed or versions" => name == "quietus create",
                "What is inferred" | "Limits" => name == "quietus serve",
                _ => true,
            };
            let has = |ids: &str| ids.split(' ').any(|it| it == id);
            let belongs = HEADINGS.iter().find(|(heading, ids)| is_special(heading) && has(ids));
            let found = option.get_help_heading().filter(|it| *it != "Options");
            match found {
                Some(rules) if rules.starts_with("Rules") => {
                    assert!(id.starts_with("keep_") || id == "name", "{name} --{id}");
                }
                found => assert_eq!(found, belongs.map(|(heading, _)| *heading), "{name} --{id}"),
            }
        }
    }
}

#[test]
fn limits_that_would_serve_no_client_are_refused_with_field_value_and_remedy() {
    for (option, value, remedy) in [
        ("--connections", "0", "expected 1 or more"),
        ("--connections", "-1", "1 or more"),
        ("--handshake-timeout", "0s", "use 1ms or more"),
        ("--stall-timeout", "0ms", "use 1ms or more"),
        ("--idle-timeout", "0h", "use 1ms or more"),
        ("--memory", "0", "expected 64M or more"),
        ("--memory", "63M", "expected 64M or more"),
        ("--nbd", "unix", "use unix:PATH"),
        ("--nbd", "tcp:10809", "tcp:ADDRESS:PORT"),
        ("--nbd", "tcp:localhost:66000", "tcp:ADDRESS:PORT"),
    ] {
        let argument = format!("{option}={value}");
        let refused = Cli::try_parse_from(["quietus", "serve", "disk", &argument]);
        let said = refused.map(|_| argument).expect_err("it is refused").to_string();
        assert!([option, value, remedy].iter().all(|it| said.contains(it)), "{said}");
    }
    let least = ["--connections=1", "--handshake-timeout=1ms", "--stall-timeout=1ms", "--memory=64M"];
    let serve = ["quietus", "serve", "disk"].into_iter().chain(least);
    assert!(Cli::try_parse_from(serve).is_ok());
    for address in ["unix:a", "unix:@name", "tcp:[::1]:0", "tcp:localhost:10809", "stdio"] {
        assert!(Cli::try_parse_from(["quietus", "serve", "disk", "--nbd", address]).is_ok(), "{address}");
    }
}

#[test]
fn ranges_are_understood_or_refused() {
    assert_eq!(parse_range("1K+512"), Ok(Range { start: 1024, len: 512 }));
    assert_eq!(parse_range("0-511"), Ok(Range { start: 0, len: 512 }));
    for bad in ["", "5", "5-", "9-3", "16E+1", "0-18446744073709551615", "18446744073709551615+1"] {
        assert!(parse_range(bad).is_err(), "{bad:?}");
    }
}
