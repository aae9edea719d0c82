//! Where the runs of a campaign begin, as it is asked for: `--snapshot`, `--cold-share`, `--in-a-row`. Read by the scheduler and by each run;
//! what is made of it is `starts`'. None of it is taken up from an earlier process, so a campaign that goes on says what is another.

use serde::{Deserialize, Serialize};

/// Where the runs of a campaign begin (`--snapshot`, `--cold-share`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Starts {
    /// Snapshots of the target beside the cold start.
    pub snapshots: u8,
    /// Of the picks, where both lineages have children.
    pub cold_share: f64,
    /// A target without snapshots is an error.
    pub required: bool,
    /// Children of one seed run picked in a row, which share a prefix snapshot; 1: each is picked anew, and all its faults happen in its
    /// own run.
    pub in_a_row: u32,
}

impl Starts {
    /// Every run starts cold.
    pub const COLD: Starts = Starts {
        snapshots: 0,
        cold_share: 1.0,
        required: false,
        in_a_row: 1,
    };

    /// What is another one than the campaign had so far, where anything is: none of it is stored for the next process.
    #[must_use]
    pub fn unlike(&self, before: &Starts) -> Option<String> {
        let parts = [
            (self.snapshots != before.snapshots)
                .then(|| format!("{} snapshots, were {}", self.snapshots, before.snapshots)),
            (self.cold_share - before.cold_share)
                .abs()
                .gt(&f64::EPSILON)
                .then(|| {
                    format!(
                        "--cold-share {}, was {}",
                        self.cold_share, before.cold_share
                    )
                }),
            (self.in_a_row != before.in_a_row)
                .then(|| format!("--in-a-row {}, was {}", self.in_a_row, before.in_a_row)),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| {
            format!(
                "the campaign goes on with other starts than it had so far: {}",
                parts.join("; ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_another_than_before_is_said() {
        let was = Starts {
            snapshots: 3,
            cold_share: 0.15,
            required: false,
            in_a_row: 4,
        };
        assert_eq!(was.unlike(&was), None);
        let required = Starts {
            required: true,
            ..was
        };
        assert_eq!(required.unlike(&was), None, "an error, and no search");
        let said = Starts::COLD.unlike(&was).unwrap();
        for part in [
            "0 snapshots, were 3",
            "--cold-share 1, was 0.15",
            "--in-a-row 1, was 4",
        ] {
            assert!(said.contains(part), "{said}");
        }
        let one = Starts { in_a_row: 2, ..was };
        let said = one.unlike(&was).unwrap();
        assert!(said.ends_with(": --in-a-row 2, was 4"), "{said}");
    }
}
