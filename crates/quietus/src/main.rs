//! `quietus`: a disk that forgets what it is told to.

fn main() -> std::process::ExitCode {
    quietus::cli::main()
}
