//! LibAFL's view of a sequence: its `Input`. Files are the text form, names are AFL's business (the campaign folder).

use crate::ids::fnv1a;
use crate::sequence::FaultSequence;
use libafl::{Error, corpus::CorpusId, inputs::Input};
use libafl_bolts::HasLen;
use std::path::Path;

impl Input for FaultSequence {
    fn to_file<P: AsRef<Path>>(&self, path: P) -> Result<(), Error> {
        libafl_bolts::fs::write_file_atomic(path, self.to_text().as_bytes())
    }

    fn from_file<P: AsRef<Path>>(path: P) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)?;
        FaultSequence::from_text(&text).map_err(|e| Error::serialize(e.to_string()))
    }

    fn generate_name(&self, _id: Option<CorpusId>) -> String {
        format!("{:016x}", fnv1a(self.to_text().as_bytes()))
    }
}

impl HasLen for FaultSequence {
    fn len(&self) -> usize {
        self.faults.len()
    }
}
