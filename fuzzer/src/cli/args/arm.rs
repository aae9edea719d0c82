//! One row of `warren bench --slots` as its user writes it: `4`, `auto`, `2/cold`, `4/whole`.

use crate::campaign::Slots;
use std::str::FromStr;

/// How many slots one row has, and how its runs start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    pub slots: Slots,
    pub how: How,
}

/// How the runs of a row start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// As a campaign's do.
    Usual,
    /// No snapshots.
    Cold,
    /// No prefix snapshots.
    Whole,
}

impl FromStr for Arm {
    type Err = String;

    /// # Errors
    /// What it should be.
    fn from_str(text: &str) -> Result<Self, String> {
        let (slots, how) = match text.split_once('/') {
            None => (text, How::Usual),
            Some((slots, "cold")) => (slots, How::Cold),
            Some((slots, "whole")) => (slots, How::Whole),
            Some((_, how)) => {
                return Err(format!(
                    "`/{how}`: write /cold (no snapshots), /whole (no prefix snapshots), or neither"
                ));
            }
        };
        Ok(Arm {
            slots: slots.parse()?,
            how,
        })
    }
}

impl Arm {
    /// As the user writes it.
    #[must_use]
    pub fn name(&self) -> String {
        let how = match self.how {
            How::Usual => "",
            How::Cold => "/cold",
            How::Whole => "/whole",
        };
        format!("{}{how}", self.slots)
    }
}
