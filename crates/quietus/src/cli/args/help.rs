//! What stands at the end of each `--help`.

/// Examples, and the exit status.
macro_rules! help {
    ($($example:literal),+) => {
        concat!(
            "Examples:\n", $("  ", $example, "\n",)+ "\n",
            "Exit status: 0 success, 1 failure, 2 wrong command line, 3 completed with findings, 130 interrupted \
             (see `quietus --help`)"
        )
    };
}

/// The end of the help of the program itself.
pub(super) const PROGRAM: &str = "Examples:\n  \
    quietus create vm1 --size 20G && quietus serve vm1\n  \
    quietus status vm1\n\n\
    Exit status:\n  \
    0    success\n  \
    1    failure; the error names the cause and the remedy\n  \
    2    wrong command line\n  \
    3    completed with findings: a check failed, dead content was found, --require is not met, an epoch that was named is \
         forgotten, no store assures deletion (doctor), or files were left out\n  \
    130  interrupted by Ctrl-C or SIGTERM\n\n\
    Environment:\n  \
    QUIETUS_LOG  level of the log on standard error: error, warn, info (default), debug or trace; for a part of the program: \
                 info,quietus::front::nbd=debug\n  \
    NO_COLOR     if set, the log has no colours";
