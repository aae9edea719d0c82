//! Whole numbers with no upper end, as values of options.

use std::num::IntErrorKind;

/// A whole number from `least` on. The refusal of clap's own open ranges tells their other end, 18446744073709551615.
pub fn at_least(
    least: u64,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| match text.parse::<u64>() {
        Ok(n) if n >= least => Ok(n),
        Err(e) if *e.kind() == IntErrorKind::PosOverflow => Err(e.to_string()),
        _ => Err(format!("write a whole number, {least} or more")),
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::args::Cli;
    use clap::Parser;

    #[test]
    fn a_number_that_is_refused_says_what_to_write() {
        for (words, part) in [
            ("fuzz x -E 0", "write a whole number, 1 or more"),
            ("fuzz x -V soon", "write a whole number, 1 or more"),
            ("fuzz x -V 1.5", "write a whole number, 1 or more"),
            ("fuzz x -t 999", "write a whole number, 1000 or more"),
            ("replay f -t 999", "write a whole number, 1000 or more"),
            ("replay f -n 0", "write a whole number, 1 or more"),
            ("tmin f -o o --runs 0", "write a whole number, 1 or more"),
            (
                "bench x --slots 1 --seconds 0",
                "write a whole number, 1 or more",
            ),
            (
                "compare x --strategies fifo --runs 0",
                "write a whole number, 1 or more",
            ),
            ("fuzz x -E 18446744073709551616", "number too large"),
        ] {
            let words = format!("warren {words}");
            let e = Cli::try_parse_from(words.split(' '))
                .unwrap_err()
                .to_string();
            assert!(
                e.contains(part) && !e.contains("18446744073709551615"),
                "{words}: {e}"
            );
        }
    }
}
