//! The files of a campaign that is taken up again, brought in line with its state: what a kill cut off is made again, and what a power cut or
//! somebody took away is left out. Called once, before the first run; `campaign/state` reads the state itself and tidies the folder.

use crate::campaign::folder::{append, io, write_whole};
use crate::campaign::state::{Opened, Store, hook, tidy};
use crate::campaign::{Folder, FuzzError, state, sync_file};
use crate::fuzz::resume::saved::{Record, Redo, Whole};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Reads the state of a campaign, brings its files in line with it, and makes again what a kill cut off.
///
/// # Errors
/// I/O; damage; a run that is missing and without which the search cannot begin.
pub fn read_back(folder: &Folder, say: impl Fn(String)) -> Result<(Store, Whole), FuzzError> {
    let root = folder.root();
    let Opened {
        store,
        checkpoint,
        records,
    } = Store::open::<Whole, Record>(root)?;
    let mut whole = checkpoint;
    for record in records {
        whole.apply(record).map_err(|why| FuzzError::Format {
            path: state::folder(root).join("journal"),
            why: format!("does not fit the checkpoint: {why}"),
        })?;
    }
    let now = &mut whole.now;
    let tidied = tidy::tidy(
        root,
        &tidy::Expected {
            kept: now.kept,
            roots: whole.learnt.roots.iter().map(|r| r.run).collect(),
            crashes: now.counts.saved_crashes,
            hangs: now.counts.saved_hangs,
            parked: whole.queue.parked().collect(),
            owed: now.owed.is_some(),
            otherwise: now.owed.as_ref().is_some_and(|o| o.otherwise),
            run_time_ms: now.fuzz_ms,
        },
    )?;
    tidied.notes.into_iter().for_each(say);
    // The next record says so; until then it is found anew.
    for id in tidied.lost {
        whole.queue.lose(id);
    }
    // Its effects may be there, in part, or not.
    cut_lines(&root.join("runs.jsonl"), &mut now.redo)?;
    let told = sync_file::mend(root, now.redo.told_at, &now.redo.told)?;
    if told != Some(false) {
        let there = told.is_some().then_some(now.redo.told.len() as u64);
        now.redo.told_at = there.map_or(0, |length| now.redo.told_at + length);
        now.redo.told.clear();
    }
    redo(root, &now.redo)?;
    Ok((store, whole))
}

/// Cuts runs.jsonl back to where the line of the last record begins.
fn cut_lines(path: &Path, redo: &mut Redo) -> Result<(), FuzzError> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .map_err(io("opening", path))?;
    let length = file.metadata().map_err(io("reading", path))?.len();
    // A file that somebody shortened is not made longer by zeros. What a power cut left of it may end in half a line: the next one would go on
    // with it, and nobody could read either.
    redo.at = whole_lines(&file, redo.at.min(length))
        .and_then(|at| before(&file, &redo.line, at))
        .map_err(io("reading", path))?;
    file.set_len(redo.at).map_err(io("cutting", path))
}

/// The end of the last whole line before a place.
fn whole_lines(file: &File, mut end: u64) -> std::io::Result<u64> {
    let mut block = [0; 4096];
    while end > 0 {
        let from = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - from) as usize];
        file.read_exact_at(part, from)?;
        if let Some(at) = part.iter().rposition(|b| *b == b'\n') {
            return Ok(from + at as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

/// The place, or before the line if that ends there: a process that came to no record of its own has made it again already.
fn before(file: &File, line: &str, at: u64) -> std::io::Result<u64> {
    let mut there = vec![0; line.len()];
    let Some(from) = at.checked_sub(line.len() as u64) else {
        return Ok(at);
    };
    file.read_exact_at(&mut there, from)?;
    Ok(if there == line.as_bytes() { from } else { at })
}

/// What is seen from outside of a record: its line, its queue entry, what other instances are told.
pub(super) fn redo(root: &Path, redo: &Redo) -> Result<(), FuzzError> {
    if !redo.line.is_empty() {
        append(&root.join("runs.jsonl"), &redo.line)?;
        hook::point("line");
    }
    if let Some((name, text)) = &redo.queue {
        write_whole(&root.join("queue").join(name), text.as_bytes())?;
        hook::point("queue");
    }
    if !redo.told.is_empty() {
        append(&sync_file::path(root), &redo.told)?;
        hook::point("told");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is there, where the last record's line begins -> what is left.
    #[test]
    fn a_line_begins_where_a_whole_one_ends() {
        let long = "x".repeat(5000);
        let two = format!("{{1}}\n{long}\n");
        let torn = format!("{{1}}\n{long}");
        let table: [(&[u8], u64, &[u8]); 10] = [
            (b"", 0, b""),
            (b"{1}\n{2}\n", 8, b"{1}\n{2}\n"),
            (b"{1}\n{2}\n", 4, b"{1}\n"),
            (b"{1}\n{2}\n{3", 8, b"{1}\n{2}\n"),
            // Shorter than the journal says.
            (b"{1}\n{2}\n", 20, b"{1}\n{2}\n"),
            (b"{1}\n{2", 20, b"{1}\n"),
            (b"{1", 20, b""),
            // As long, and its end was never written.
            (b"{1}\n\0\0\0\0", 8, b"{1}\n"),
            (two.as_bytes(), 5005, two.as_bytes()),
            (torn.as_bytes(), 9000, b"{1}\n"),
        ];
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs.jsonl");
        for (there, at, want) in table {
            std::fs::write(&path, there).unwrap();
            let mut redo = Redo {
                at,
                ..Redo::default()
            };
            cut_lines(&path, &mut redo).unwrap();
            let left = std::fs::read(&path).unwrap();
            assert_eq!(left, want, "{}", String::from_utf8_lossy(there));
            assert_eq!(redo.at, want.len() as u64);
        }
        // Made again before, in a file that is shorter than the journal says.
        for at in [20, 4] {
            std::fs::write(&path, "{1}\n{2}\n").unwrap();
            let mut redo = Redo {
                at,
                line: "{2}\n".into(),
                ..Redo::default()
            };
            cut_lines(&path, &mut redo).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"{1}\n");
        }
    }
}
