//! One mapped file shared with other processes: raw mapping, atomic words, never a byte slice.
//!
//! The only `unsafe` of the link. Everything else goes through [`SharedPage::word`].

use super::LinkError;
use memmap2::{MmapOptions, MmapRaw};
use nix::fcntl::posix_fallocate;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file mapped read-write, or what one held when it was read; its size never changes.
#[derive(Debug)]
pub struct SharedPage {
    map: MmapRaw,
    bytes: usize,
}

impl SharedPage {
    /// Creates the file with all its blocks (a full tmpfs would be a SIGBUS later), zeroed, and maps it.
    ///
    /// # Errors
    /// [`LinkError::Create`].
    pub fn create(path: &Path, bytes: usize) -> Result<Self, LinkError> {
        let fail = |source| LinkError::Create {
            path: path.to_owned(),
            bytes,
            source,
        };
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(fail)?;
        let length = i64::try_from(bytes).map_err(|e| fail(std::io::Error::other(e)))?;
        posix_fallocate(&file, 0, length).map_err(|e| fail(e.into()))?;
        let map = MmapOptions::new().len(bytes).map_raw(&file).map_err(fail)?;
        Ok(SharedPage { map, bytes })
    }

    /// Maps a file that is there, with the size it has and all its blocks: the first look at a hole takes a block, even to read it, and a
    /// tmpfs that has none left answers with SIGBUS. One with holes is for [`SharedPage::read`].
    ///
    /// # Errors
    /// [`LinkError::Open`].
    pub fn open(path: &Path) -> Result<Self, LinkError> {
        let fail = |source| LinkError::Open {
            path: path.to_owned(),
            source,
        };
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(fail)?;
        let bytes = usize::try_from(file.metadata().map_err(fail)?.len())
            .map_err(|e| fail(std::io::Error::other(e)))?;
        let map = MmapOptions::new().len(bytes).map_raw(&file).map_err(fail)?;
        Ok(SharedPage { map, bytes })
    }

    /// What is in a file now, holes as zeros: a copy of our own, which takes nothing from where the file lies.
    ///
    /// # Errors
    /// [`LinkError::Open`].
    pub fn read(path: &Path) -> Result<Self, LinkError> {
        let fail = |source| LinkError::Open {
            path: path.to_owned(),
            source,
        };
        let mut file = std::fs::File::open(path).map_err(fail)?;
        let bytes = usize::try_from(file.metadata().map_err(fail)?.len())
            .map_err(|e| fail(std::io::Error::other(e)))?;
        let mut map = MmapOptions::new().len(bytes).map_anon().map_err(fail)?;
        file.read_exact(&mut map).map_err(fail)?;
        let map = MmapRaw::from(map);
        Ok(SharedPage { map, bytes })
    }

    /// Size, bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the page has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The word at a byte offset that is a multiple of 8. An offset outside is a fault of ours and panics.
    #[must_use]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(8) && offset + 8 <= self.bytes,
            "word at {offset} of a page of {} bytes",
            self.bytes
        );
        // SAFETY: inside the mapping (asserted), aligned (mappings are page-aligned, offset is a multiple of 8), and touched by this
        // process only here, so only ever atomically and as whole words (other processes write by their own rules: whoever reads
        // what they are writing may see a part of it); the mapping lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(offset).cast()) }
    }

    /// Acquire-read of a word.
    #[must_use]
    pub fn get(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Release-write of a word.
    pub fn set(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }

    /// A copy of a range that begins at a multiple of 8, taken word by word; so the last word must be in the page as a whole.
    #[must_use]
    pub fn copy(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len.next_multiple_of(8));
        for at in (offset..offset + len).step_by(8) {
            out.extend_from_slice(&self.word(at).load(Ordering::Relaxed).to_le_bytes());
        }
        out.truncate(len);
        out
    }

    /// Writes bytes from a multiple of 8 on, as whole words: the last one is filled up with zeros. Readers learn of them by a word
    /// set afterwards.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        for (i, piece) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.word(offset + i * 8)
                .store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_see_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        let a = SharedPage::create(&path, 4096).unwrap();
        a.set(8, 0x0102_0304_0506_0708);
        let file = std::fs::read(&path).unwrap();
        assert_eq!(&file[8..16], &[8, 7, 6, 5, 4, 3, 2, 1], "little endian");
        a.set(24, u64::MAX);
        a.write(16, b"abcdefghijk");
        assert_eq!(a.copy(16, 13), b"abcdefghijk\0\0");
        assert_eq!(a.copy(4088, 8), [0; 8], "up to the end");
        assert!(a.copy(16, 0).is_empty());
    }

    #[test]
    fn what_is_read_is_a_copy_and_its_holes_stay_holes() {
        use std::os::unix::fs::MetadataExt;
        // A tmpfs, as where snapshots lie: only there a hole that is mapped and looked at takes a block.
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("p");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[7], 8).unwrap();
        let before = file.metadata().unwrap().blocks();
        let read = SharedPage::read(&path).unwrap();
        assert_eq!(
            (read.len(), read.get(8), read.get((1 << 20) - 8)),
            (1 << 20, 7, 0)
        );
        read.set(16, 9);
        assert_eq!(
            file.metadata().unwrap().blocks(),
            before,
            "nothing is taken"
        );
        let again = SharedPage::read(&path).unwrap();
        assert_eq!(again.get(16), 0, "nor written");
        // What it is there for.
        let mapped = SharedPage::open(&path).unwrap();
        assert_eq!(mapped.get((1 << 20) - 8), 0);
        assert!(file.metadata().unwrap().blocks() > before);
    }

    #[test]
    #[should_panic(expected = "word at 4096")]
    fn a_word_outside_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let a = SharedPage::create(&dir.path().join("p"), 4096).unwrap();
        let _ = a.get(4096);
    }

    #[test]
    #[should_panic(expected = "word at 17")]
    fn bytes_begin_at_a_word() {
        let dir = tempfile::tempdir().unwrap();
        let a = SharedPage::create(&dir.path().join("p"), 4096).unwrap();
        a.write(17, b"abc");
    }

    #[test]
    fn what_cannot_be_allocated_is_an_error_with_its_cause() {
        let dir = tempfile::tempdir().unwrap();
        // No length is none that can be allocated.
        match SharedPage::create(&dir.path().join("p"), 0) {
            Err(LinkError::Create { source, .. }) => {
                assert_eq!(source.raw_os_error(), Some(libc::EINVAL));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_folder_is_an_error_with_the_path() {
        let e = SharedPage::create(Path::new("/nonexistent/x.page"), 4096).unwrap_err();
        assert!(e.to_string().contains("/nonexistent/x.page"), "{e}");
    }
}
